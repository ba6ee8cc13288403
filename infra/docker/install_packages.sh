#!/bin/sh
# install_packages.sh LOCK: installs a lock into /opt/firnline, and removes what Firnline never loads.
set -eu
uv pip install --require-hashes --no-deps -r "$1"
cd /opt/firnline/lib/python3.11/site-packages
find . -type d -name tests -prune -exec rm -rf {} +
# Models of other services of AWS, Arrow's headers and Flight, second copies of libraries.
if [ -d botocore ]; then
  find botocore/data -mindepth 1 -maxdepth 1 -type d ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin \
    -exec rm -rf {} +
fi
rm -rf zstandard/_cffi* pyarrow/include pyarrow/src pyarrow/*flight* pyarrow/libarrow*.so pyarrow/libarrow*.so.*.*
# Of Spark's jars: machine learning, Hive, Connect, its shell, a state store of streams, other systems' natives.
if [ -d pyspark ]; then
  rm -rf pyspark/examples pyspark/data pyspark/jars/connect-repl
  cd pyspark/jars
  rm -f spark-mllib* breeze* spire* cats-kernel* algebra_* JTransforms* arpack* lapack* rocksdbjni* spark-connect* \
    spark-repl* scala-compiler* jline* spark-hive* hive-* derby* datanucleus* *-osx-* *-windows-* *-linux-aarch_64*
fi
# A container's root is read-only: what is not compiled here would be compiled at each start.
python -m compileall -q --invalidation-mode unchecked-hash /opt/firnline/lib
