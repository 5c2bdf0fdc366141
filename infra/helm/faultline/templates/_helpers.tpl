{{- define "faultline.name" -}}
{{- if contains "faultline" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-faultline" (.Release.Name | trunc 30 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "faultline.selector" -}}
app.kubernetes.io/name: faultline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "faultline.labels" -}}
{{ include "faultline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "faultline.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end }}

{{/* The Secret of a role ("server" or "worker"); empty if it has none. */}}
{{- define "faultline.secret" -}}
{{- $secret := index .root.Values.secrets .role -}}
{{- if $secret.existingSecret }}{{ $secret.existingSecret }}{{ else if $secret.data }}{{ include "faultline.name" .root }}-{{ .role }}-secrets{{ end }}
{{- end }}

{{- define "faultline.host" -}}
{{- (urlParse .Values.settings.server.public_url).hostname -}}
{{- end }}

{{/* What an operator may get wrong, said in one sentence each before anything reaches the cluster. */}}
{{- define "faultline.check" -}}
{{- $sqlite := eq .Values.database "sqlite" -}}
{{- range $role := list "server" "worker" }}
  {{- $replicas := (index $.Values $role).replicas | default 1 | int }}
  {{- $secret := index $.Values.secrets $role }}
  {{- if and $sqlite (gt $replicas 1) }}
    {{- fail (printf "%s.replicas is %d, but SQLite takes one pod: set database to postgresql, or leave replicas out" $role $replicas) }}
  {{- end }}
  {{- if and $secret.existingSecret $secret.data }}
    {{- fail (printf "secrets.%s has both existingSecret and data: keep one of them" $role) }}
  {{- end }}
  {{- if and (not $sqlite) (not (include "faultline.secret" (dict "root" $ "role" $role))) }}
    {{- fail (printf "PostgreSQL's address is missing: set secrets.%s.existingSecret or secrets.%s.data, with FAULTLINE_STORE__DATABASE" $role $role) }}
  {{- end }}
  {{- if and (not $sqlite) $secret.data (not (hasKey $secret.data "FAULTLINE_STORE__DATABASE")) (not (hasKey $secret.data "FAULTLINE_STORE__DATABASE_FILE")) }}
    {{- fail (printf "secrets.%s.data lacks FAULTLINE_STORE__DATABASE, PostgreSQL's address" $role) }}
  {{- end }}
  {{- if and $sqlite $secret.data (hasKey $secret.data "FAULTLINE_STORE__DATABASE") }}
    {{- fail (printf "secrets.%s.data names a database, but database is sqlite: set database to postgresql" $role) }}
  {{- end }}
{{- end }}
{{- $cases := dig "store" "cases" "" .Values.settings }}
{{- if and (not $sqlite) (not (hasPrefix "s3://" $cases)) }}
  {{- fail "settings.store.cases must be a bucket (s3://BUCKET/PREFIX): with PostgreSQL, servers and workers share no disk" }}
{{- end }}
{{- if hasPrefix "toml: " (toToml .Values.settings) }}
  {{- fail (printf "settings cannot be written as TOML (%s): a list in it holds a null, or both tables and values" (toToml .Values.settings)) }}
{{- end }}
{{- if and .Values.ingress.enabled (not (hasPrefix "https://" .Values.settings.server.public_url)) }}
  {{- fail (printf "settings.server.public_url is %s, but the ingress needs the address that people and vendors use, with https://" .Values.settings.server.public_url) }}
{{- end }}
{{- end }}

{{/* A pod of Faultline. `role` is "server" or "worker", `how` the values of what it needs, `roles` whose secrets it gets. */}}
{{- define "faultline.pod" -}}
{{- $sqlite := eq .root.Values.database "sqlite" -}}
metadata:
  labels:
    {{- include "faultline.selector" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
  annotations:
    checksum/settings: {{ toToml .root.Values.settings | sha256sum }}
    checksum/secrets: {{ toJson .root.Values.secrets | sha256sum }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "faultline.name" .root }}-{{ .role }}
  automountServiceAccountToken: {{ and .root.Values.clusterRead.enabled (has "worker" .roles) }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  terminationGracePeriodSeconds: {{ ternary 120 45 (has "worker" .roles) }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- if not $sqlite }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "faultline.selector" .root | nindent 10 }}
          app.kubernetes.io/component: {{ .role }}
  {{- end }}
  {{- with .how.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .how.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .how.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "faultline.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      {{- if eq .role "worker" }}
      args: [worker]
      {{- else if $sqlite }}
      args: [serve]
      {{- else }}
      args: [serve, --no-worker]
      {{- end }}
      env:
        - {name: FAULTLINE_CONFIG, value: /config/faultline.toml}
        {{- if eq .role "worker" }}
        - {name: FAULTLINE_TELEMETRY__WORKER_ADDRESS, value: "0.0.0.0:9090"}
        {{- else }}
        - {name: FAULTLINE_TELEMETRY__METRICS_ADDRESS, value: "0.0.0.0:9090"}
        {{- if $sqlite }}
        - {name: FAULTLINE_TELEMETRY__WORKER_ADDRESS, value: "0.0.0.0:9091"}
        {{- end }}
        {{- end }}
        - {name: FAULTLINE_TELEMETRY__LOGS, value: json}
        {{- with .root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- $names := list }}
      {{- range $role := .roles }}
        {{- with include "faultline.secret" (dict "root" $.root "role" $role) }}
          {{- $names = append $names . | uniq }}
        {{- end }}
      {{- end }}
      {{- with $names }}
      envFrom:
        {{- range . }}
        - secretRef: {name: {{ . }}}
        {{- end }}
      {{- end }}
      ports:
        {{- if eq .role "server" }}
        - {name: http, containerPort: 8080}
        {{- end }}
        - {name: metrics, containerPort: 9090}
        {{- if $sqlite }}
        - {name: worker-metrics, containerPort: 9091}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: {{ ternary "http" "metrics" (eq .role "server") }}}
        periodSeconds: 5
        failureThreshold: 36
      {{- if eq .role "server" }}
      readinessProbe:
        # A server whose database is away still keeps alerts, in its spool.
        httpGet: {path: "/readyz?for=alerts", port: http}
        periodSeconds: 10
        timeoutSeconds: 5
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 20
        timeoutSeconds: 5
        failureThreshold: 3
      lifecycle:
        preStop: # until the endpoint is gone everywhere, requests still come; the image has no shell
          exec:
            command: [/app/.venv/bin/python, -c, "import time; time.sleep(5)"]
      {{- else }}
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 30
        timeoutSeconds: 5
        failureThreshold: 6
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .how.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /config, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        - {name: state, mountPath: /state}
        {{- with .root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "faultline.name" .root }}-settings}
    - name: tmp
      emptyDir: {sizeLimit: {{ .how.scratch }}}
    - name: state
      {{- if $sqlite }}
      persistentVolumeClaim: {claimName: {{ .root.Values.persistence.existingClaim | default (printf "%s-state" (include "faultline.name" .root)) }}}
      {{- else }}
      emptyDir: {sizeLimit: {{ .root.Values.server.spool }}}
      {{- end }}
    {{- with .root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
