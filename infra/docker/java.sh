#!/bin/sh
# A `java` of a folder that also has archives of classes, by main class: loading classes takes half of a start's CPU.
# Without an archive, or with one that does not fit, a JVM starts as usual.
# ARCHIVE_CLASSES: main classes whose JVMs write their archive when they end.
folder=${0%/bin/java}
java=$folder/jre/bin/java
[ -x "$java" ] || java=$(command -v java)
for word; do
  archive=$folder/$word.jsa
  case " ${ARCHIVE_CLASSES:-none} " in
    *" $word "*) exec "$java" -Xlog:disable -XX:ArchiveClassesAtExit="$archive" "$@" ;;
  esac
  if [ -f "$archive" ]; then exec "$java" '-Xlog:cds*=off' -XX:SharedArchiveFile="$archive" "$@"; fi
done
exec "$java" "$@"
