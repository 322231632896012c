{{- /* What one job is: its values over the defaults, and what is refused. Each takes a dict with root, name, job. */ -}}

{{- define "ducklake.home" -}}/var/lib/ducklake{{- end }}

{{- /* The job's values, with the defaults where it says nothing, as YAML. */ -}}
{{- define "ducklake.settings" -}}
{{ mergeOverwrite (deepCopy .root.Values.defaults) (deepCopy .job) | toYaml }}
{{- end }}

{{- /* Refuse what would lose data or show a secret; nothing is printed. A dict with name, settings. */ -}}
{{- define "ducklake.check" -}}
{{- $file := fromToml .settings.file }}
{{- if hasKey $file "Error" }}
{{- fail (printf "jobs.%s.file is no TOML: %s" .name $file.Error) }}
{{- end }}
{{- if eq .settings.checkpoint.type "emptyDir" }}
{{- fail (printf "jobs.%s.checkpoint.type is emptyDir, which is gone with its Pod: the next Pod would not know how far the stream has read, and would read again or lose records. Use pvc or objectStore" .name) }}
{{- end }}
{{- if regexMatch "://[^/\\s:@\"']+:[^$@/\\s\"'][^@\\s\"']*@" .settings.file }}
{{- fail (printf "jobs.%s.file has a password in a URL, and a ConfigMap shows it to everybody who may look: write ${env:NAME} there, and name its Secret in jobs.%s.secretEnv" .name .name) }}
{{- end }}
{{- range $pipeline, $keys := default dict $file.pipeline }}
{{- include "ducklake.checkpoint" (dict "name" $.name "settings" $.settings "pipeline" $pipeline "path" (default "" $keys.checkpoint)) }}
{{- end }}
{{- $master := default "" (default dict $file.spark).master }}
{{- if and .settings.executors (not (hasPrefix "k8s://" $master)) }}
{{- fail (printf "jobs.%s has executors, but its file has [spark] master = %q: write master = \"k8s://https://kubernetes.default.svc\", or leave executors out" .name $master) }}
{{- end }}
{{- if and (hasPrefix "k8s://" $master) (not .settings.executors) }}
{{- fail (printf "jobs.%s: its file has [spark] master = %q, but it has no executors: say how many in jobs.%s.executors" .name $master .name) }}
{{- end }}
{{- end }}

{{- define "ducklake.checkpoint" -}}
{{- $isUrl := regexMatch "^[A-Za-z][A-Za-z0-9+.-]*:/" .path }}
{{- $isReference := contains "${" .path }}
{{- if and (eq .settings.checkpoint.type "objectStore") (not $isUrl) (not $isReference) }}
{{- fail (printf "jobs.%s: pipeline.%s.checkpoint is %q, but jobs.%s.checkpoint.type is objectStore: write a URL such as s3://bucket/checkpoints/%s, or use type pvc" .name .pipeline .path .name .pipeline) }}
{{- end }}
{{- if and (hasPrefix "/" .path) (not (hasPrefix (printf "%s/" (include "ducklake.home" .)) .path)) }}
{{- fail (printf "jobs.%s: pipeline.%s.checkpoint is %q, which is on no volume and would be gone with the Pod: write a path below %s, or one relative to the job file, which is there" .name .pipeline .path (include "ducklake.home" .)) }}
{{- end }}
{{- if or (hasPrefix "file:" .path) (hasPrefix ".." .path) }}
{{- fail (printf "jobs.%s: pipeline.%s.checkpoint is %q: write a path below %s, or one relative to the job file, which is there" .name .pipeline .path (include "ducklake.home" .)) }}
{{- end }}
{{- end }}

{{- /* MiB of the container: Java's heap, what Java needs beside it, Python, and a Python of Spark for each core. */ -}}
{{- define "ducklake.memory" -}}
{{- $heap := int .memory.heap }}
{{- $beside := max 384 (div $heap 4) }}
{{- add $heap $beside (int .memory.python) (mul (int .cores) (int .memory.worker)) }}
{{- end }}

{{- /* Variables of a container: plain ones, and those of Secrets. */ -}}
{{- define "ducklake.env" -}}
{{- range $name, $value := .env }}
{{- if regexMatch "(?i)(password|passwd|secret|token|access_key|private_key|jaas)" $name }}
{{- fail (printf "env.%s sounds like a secret, which everybody could read who may see the Pod: put it into a Secret, and name that in secretEnv.%s" $name $name) }}
{{- end }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $from := .secretEnv }}
- name: {{ $name }}
  valueFrom: { secretKeyRef: { name: {{ $from.secret | quote }}, key: {{ $from.key | quote }} } }
{{- end }}
{{- end }}

{{- define "ducklake.secretMounts" -}}
{{- range $name, $secret := .secretFiles }}
- { name: {{ printf "secret-%s" $name }}, mountPath: {{ printf "/run/secrets/%s" $name }}, readOnly: true }
{{- end }}
{{- end }}

{{- define "ducklake.secretVolumes" -}}
{{- range $name, $secret := .secretFiles }}
- name: {{ printf "secret-%s" $name }}
  secret: { secretName: {{ $secret | quote }}, defaultMode: 0440 }
{{- end }}
{{- end }}
