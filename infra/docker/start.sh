#!/bin/bash
# Runs a module of Firnline; for `executor` Spark's executor, which Kubernetes starts with variables.
# tini reaps Spark's Python processes, which outlive the daemon that forked them.
if [ "$1" != executor ]; then exec tini -- python -m "$@"; fi
mapfile -t options < <(env | grep ^SPARK_JAVA_OPT_ | sort -t_ -k4 -n | cut -d= -f2-)
exec tini -- java "${options[@]}" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
  -cp "/opt/firnline/lib/python3.11/site-packages/pyspark/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "$SPARK_DRIVER_URL" \
  --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
  --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
