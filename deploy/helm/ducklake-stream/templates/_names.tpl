{{- /* Names and labels. */ -}}

{{- define "ducklake.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}{{ $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}{{ end }}
{{- end }}

{{- define "ducklake.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ducklake.labels" -}}
{{ include "ducklake.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Of one job: a dict with root, name. */ -}}
{{- define "ducklake.jobname" -}}
{{ printf "%s-%s" (include "ducklake.fullname" .root) .name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ducklake.jobselector" -}}
{{ include "ducklake.selector" .root }}
app.kubernetes.io/component: job
ducklake.select/job: {{ .name }}
{{- end }}

{{- define "ducklake.joblabels" -}}
{{ include "ducklake.labels" .root }}
app.kubernetes.io/component: job
ducklake.select/job: {{ .name }}
{{- end }}

{{- define "ducklake.account" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "ducklake.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "ducklake.image" -}}
{{- if .Values.image.digest }}{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}
