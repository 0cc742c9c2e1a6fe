{{- define "pilotage.name" -}}
{{- if contains "pilotage" .Release.Name }}{{ .Release.Name | trunc 50 }}{{ else }}{{ printf "%s-pilotage" .Release.Name | trunc 50 }}{{ end -}}
{{- end }}

{{- define "pilotage.labels" -}}
app.kubernetes.io/name: pilotage
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .part }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{- define "pilotage.selector" -}}
app.kubernetes.io/name: pilotage
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "pilotage.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "pilotage.tlsSecret" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" (include "pilotage.name" .)) }}
{{- end }}

{{- define "pilotage.dashboardToken" -}}
{{ .Values.dashboard.tokenSecret | default (printf "%s-dashboard-token" (include "pilotage.name" .)) }}
{{- end }}

{{/* Address of the service inside the cluster; its certificate has this name. */}}
{{- define "pilotage.serviceUrl" -}}
https://{{ include "pilotage.name" . }}-service.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end }}

{{- define "pilotage.priorityClass" -}}
{{ .Values.priorityClass.name | default (include "pilotage.name" .) }}
{{- end }}

{{/* What every pod of this chart has in common: where it runs, and that it may do nothing on its node. */}}
{{- define "pilotage.pod" -}}
schedulerName: {{ .root.Values.ownScheduler }}
{{- if or .root.Values.priorityClass.create .root.Values.priorityClass.name }}
priorityClassName: {{ include "pilotage.priorityClass" .root }}
{{- end }}
serviceAccountName: {{ include "pilotage.name" .root }}-{{ .part }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "pilotage.selector" . | nindent 8 }}
{{- end }}

{{- define "pilotage.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Compiled kernels of the image are copied to where the process may add its own: numba writes beside what it reads. */}}
{{- define "pilotage.kernels" -}}
initContainers:
  - name: kernels
    image: {{ include "pilotage.image" .root }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: [cp, -R, /opt/pilotage/cache/kernels, /var/cache/pilotage/]
    {{- include "pilotage.confined" . | nindent 4 }}
    resources:
      requests: {cpu: 50m, memory: 32Mi}
      limits: {memory: 64Mi}
    volumeMounts:
      - {name: cache, mountPath: /var/cache/pilotage}
{{- end }}

{{/* Both end with a list that a part may go on with. */}}
{{- define "pilotage.mounts" -}}
volumeMounts:
  - {name: cache, mountPath: /var/cache/pilotage}
  - {name: tmp, mountPath: /tmp}
  - {name: tls, mountPath: /etc/pilotage/tls, readOnly: true}
{{- end }}

{{- define "pilotage.volumes" -}}
volumes:
  - name: cache
    emptyDir: {sizeLimit: 512Mi}
  - name: tmp
    emptyDir: {sizeLimit: 64Mi}
  - name: tls
    secret: {secretName: {{ include "pilotage.tlsSecret" .root }}, defaultMode: 0440}
{{- end }}

{{/* A part with its options: root, part, port. Probes ask over TLS; compiling may take a while at the first start. */}}
{{- define "pilotage.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: HTTPS}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ .port }}, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- define "pilotage.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "pilotage.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
{{- end }}

{{- define "pilotage.clusterBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ include "pilotage.name" .root }}-{{ .part }}{{ .suffix }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
subjects:
  - {kind: ServiceAccount, name: {{ include "pilotage.name" .root }}-{{ .part }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}

{{/* What every part that keeps the cluster's state needs. */}}
{{- define "pilotage.readRules" -}}
- apiGroups: [""]
  resources: [namespaces, nodes, pods]
  verbs: [list, watch]
{{- end }}

{{/* A Lease of one name in kube-system, where those of the cluster's own schedulers are. */}}
{{- define "pilotage.leaseRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ include "pilotage.name" .root }}-{{ .part }}
  namespace: kube-system
  labels: {{- include "pilotage.labels" . | nindent 4 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]  # of any name: a name cannot be required of what is not there yet
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .lease }}]
    verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ include "pilotage.name" .root }}-{{ .part }}
  namespace: kube-system
  labels: {{- include "pilotage.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "pilotage.name" .root }}-{{ .part }}
subjects:
  - {kind: ServiceAccount, name: {{ include "pilotage.name" .root }}-{{ .part }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}

{{- define "pilotage.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "pilotage.name" .root }}-{{ .part }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pilotage.labels" . | nindent 4 }}
spec:
  minAvailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "pilotage.selector" . | nindent 6 }}
{{- end }}

{{/* A destination of the values: its ports, and whom it is. */}}
{{- define "pilotage.egress" -}}
ports:
  {{- range .ports }}
  - {port: {{ . }}}
  {{- end }}
{{- with .to }}
to: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
