{{- /* Parts of every Pod. */ -}}

{{- define "ducklake.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "ducklake.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities: { drop: [ALL] }
{{- end }}

{{- define "ducklake.podBase" -}}
serviceAccountName: {{ include "ducklake.account" . }}
enableServiceLinks: false
securityContext:
  {{- include "ducklake.podSecurity" . | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Where a job's Pod goes: a dict with settings. */ -}}
{{- define "ducklake.placement" -}}
{{- with .settings.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* Mounts and volumes of a job: a dict with root, name, settings. The job file is beside what it names. */ -}}
{{- define "ducklake.jobMounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if eq .settings.checkpoint.type "pvc" }}
- { name: checkpoint, mountPath: {{ include "ducklake.home" . }} }
{{- end }}
- { name: job, mountPath: {{ include "ducklake.home" . }}/job.toml, subPath: job.toml, readOnly: true }
{{- range $name, $text := .settings.files }}
- { name: job, mountPath: {{ include "ducklake.home" $ }}/{{ $name }}, subPath: {{ $name }}, readOnly: true }
{{- end }}
{{- if .settings.executors }}
- { name: job, mountPath: /opt/spark/conf/spark-defaults.conf, subPath: spark-defaults.conf, readOnly: true }
- { name: job, mountPath: /opt/spark/conf/executor.yaml, subPath: executor.yaml, readOnly: true }
{{- end }}
{{- include "ducklake.secretMounts" .settings }}
{{- end }}

{{- define "ducklake.jobVolumes" -}}
- name: tmp
  emptyDir: { sizeLimit: {{ .settings.scratch }} }
- name: job
  configMap: { name: {{ include "ducklake.jobname" . }} }
{{- if eq .settings.checkpoint.type "pvc" }}
- name: checkpoint
  persistentVolumeClaim:
    claimName: {{ default (include "ducklake.jobname" .) .settings.checkpoint.existingClaim }}
{{- end }}
{{- include "ducklake.secretVolumes" .settings }}
{{- end }}

{{- /* A probe: a dict with root, path, probe. */ -}}
{{- define "ducklake.probe" -}}
httpGet: { path: {{ .path }}, port: metrics, scheme: {{ .root.Values.metrics.scheme }} }
{{- toYaml .probe | nindent 0 }}
{{- end }}
