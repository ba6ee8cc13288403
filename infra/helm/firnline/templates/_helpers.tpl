{{- /* What a service is, whatever the values say. `workers` adds one service for each entry. */}}
{{- define "firnline.services" -}}
gateway: {image: edge, kind: StatefulSet, port: 8181, graceSeconds: 60}
listener: {image: enricher, kind: Deployment, port: 8282, graceSeconds: 30}
enricher: {image: enricher, kind: Deployment, graceSeconds: 30}
planner: {image: edge, kind: StatefulSet, graceSeconds: 30}
committer: {image: jvm, kind: Deployment, graceSeconds: 30}
console: {image: edge, kind: Deployment, port: 8080, graceSeconds: 30}
worker: {image: jvm, kind: Deployment, graceSeconds: 60}
{{- end }}

{{- /* Every service with its values, by name; `module` is the one that it runs. */}}
{{- define "firnline.workloads" -}}
{{- $all := dict }}
{{- range $name, $facts := include "firnline.services" . | fromYaml }}
{{- range $pool, $values := ternary $.Values.workers (dict $name (get $.Values $name)) (eq $name "worker") }}
{{- if and $values (ne (toString $values.enabled) "false") }}
{{- $_ := set $all $pool (mergeOverwrite (dict "module" $name) $facts (deepCopy $values)) }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- define "firnline.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "firnline.selector" -}}
app.kubernetes.io/name: firnline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "firnline.labels" -}}
{{ include "firnline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "firnline.image" -}}
{{ .root.Values.image.repository }}-{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- /* http or https, and host and port of gateway or console. */}}
{{- define "firnline.uri" -}}
{{- $one := get (include "firnline.services" .root | fromYaml) .service -}}
http{{ if (get .root.Values .service).tlsSecret }}s{{ end }}://{{ include "firnline.name" .root }}-{{ .service }}.{{ .root.Release.Namespace }}.svc:{{ $one.port }}
{{- end }}

{{- /* A quantity of CPU in whole cores, as the console takes them. */}}
{{- define "firnline.cores" -}}
{{- $cpu := toString . -}}
{{- ternary (divf (trimSuffix "m" $cpu | float64) 1000) (float64 $cpu) (hasSuffix "m" $cpu) | ceil -}}
{{- end }}

{{- /* Variables of every pod; `service`: what else its values say. */}}
{{- define "firnline.env" -}}
{{- $root := .root }}
{{- $env := dict "FIRNLINE_BUCKETS" $root.Values.buckets "FIRNLINE_METRICS_ADDRESS" "0.0.0.0:9100" "FIRNLINE_LOG_FORMAT" "json" "FIRNLINE_STATE_DIR" "/state" }}
{{- $_ := set $env "FIRNLINE_SIGNING_KEYS" (ternary "/etc/firnline/signing-keys" "off" $root.Values.signing) }}
{{- $_ := set $env "FIRNLINE_KAFKA" $root.Values.kafka }}
{{- $_ := set $env "FIRNLINE_REDIS" $root.Values.redis }}
{{- $_ := set $env "FIRNLINE_GROUPS" $root.Values.groups }}
{{- $_ := set $env "FIRNLINE_REPLICAS" $root.Values.topics.replicas }}
{{- if ne (toString $root.Values.console.enabled) "false" }}
{{- $_ := set $env "FIRNLINE_CONSOLE_URI" (include "firnline.uri" (dict "root" $root "service" "console")) }}
{{- end }}
{{- if $root.Values.upstreamUri }}
{{- $_ := set $env "FIRNLINE_UPSTREAM_URI" $root.Values.upstreamUri }}
{{- $_ := set $env "FIRNLINE_CATALOG_URI" (include "firnline.uri" (dict "root" $root "service" "gateway")) }}
{{- else }}
{{- $_ := set $env "FIRNLINE_CONFIG" "/etc/firnline/firnline.toml" }}
{{- end }}
{{- with .service }}
{{- with .port }}{{ $_ := set $env "FIRNLINE_LISTEN_ADDRESS" (printf "0.0.0.0:%v" .) }}{{ end }}
{{- if .tlsSecret }}
{{- $_ := set $env "FIRNLINE_TLS_CERTIFICATE" "/etc/firnline-tls/tls.crt" }}
{{- $_ := set $env "FIRNLINE_TLS_KEY" "/etc/firnline-tls/tls.key" }}
{{- end }}
{{- if .lanes }}
{{- $_ := set $env "FIRNLINE_WORKER_LANES" (join "," .lanes) }}
{{- $_ := set $env "FIRNLINE_RESOURCE_GROUP" .group }}
{{- $_ := set $env "FIRNLINE_HEAP_BYTES" (int64 .heapBytes) }}
{{- $_ := set $env "FIRNLINE_DELETE_SET_BYTES" (int64 .deleteSetBytes) }}
{{- $_ := set $env "FIRNLINE_GRACE_SECONDS" 45 }}
{{- if $root.Values.executors }}{{ $_ := set $env "FIRNLINE_SPARK_MASTER" "k8s://https://kubernetes.default.svc" }}{{ end }}
{{- end }}
{{- end }}
{{- $env = mergeOverwrite $env $root.Values.env ((.service | default dict).env | default dict) }}
{{- range $name, $value := $env }}
{{- if and (ne (toString $value) "") (not (kindIs "invalid" $value)) }}
- {name: {{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}
{{- if $root.Values.executors }}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
{{- end }}
{{- end }}

{{- define "firnline.containerSecurity" -}}
{readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
{{- end }}

{{- /* Fields of a pod besides its containers; `component`: its name, `service`: its values. */}}
{{- define "firnline.pod" -}}
{{- $service := .service | default dict }}
serviceAccountName: {{ .account | default "default" }}
automountServiceAccountToken: {{ if and (.service).lanes .root.Values.executors }}true{{ else }}false{{ end }}
# Else a Service called firnline-... adds variables with the prefix FIRNLINE_ to each pod.
enableServiceLinks: false
securityContext: {{ toJson .root.Values.podSecurityContext }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with mergeOverwrite (deepCopy .root.Values.podSpec) ($service.podSpec | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "firnline.mounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: state, mountPath: /state}
{{- if (.service).secret | default .root.Values.secret }}
- {name: config, mountPath: /etc/firnline, readOnly: true}
{{- end }}
{{- if (.service).tlsSecret }}
- {name: tls, mountPath: /etc/firnline-tls, readOnly: true}
{{- end }}
{{- with .root.Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "firnline.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- if not ((.service).persistence).enabled }}
- {name: state, emptyDir: {}}
{{- end }}
{{- with (.service).secret | default .root.Values.secret }}
- {name: config, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- with (.service).tlsSecret }}
- {name: tls, secret: {secretName: {{ . }}, defaultMode: 0440}}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
