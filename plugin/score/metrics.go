package score

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "pilotage_plugin"

// They stand beside kube-scheduler's own, on its /metrics.
var (
	scoredPods = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "scored_pods_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods whose candidates the service has scored.",
	}, []string{"profile"})
	fallbacks = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "fallbacks_total", StabilityLevel: metrics.ALPHA,
		Help: "Pods that the other plugins decided, by why the service did not.",
	}, []string{"profile", "reason"})
	seconds = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "duration_seconds", StabilityLevel: metrics.ALPHA,
		Help:    "That pods waited for the service, answered or not.",
		Buckets: metrics.ExponentialBuckets(0.0005, 2, 12),
	}, []string{"profile"})
	circuitOpen = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: "circuit_open", StabilityLevel: metrics.ALPHA,
		Help: "1 while the service is left alone after failures in a row.",
	}, []string{"profile"})
	sentStates = metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: "sent_states_total", StabilityLevel: metrics.ALPHA,
		Help: "States of nodes that were sent because they had changed.",
	}, []string{"profile"})

	registerOnce sync.Once
)

// registerMetrics registers them with the registry that kube-scheduler serves, and begins with zeros for a profile.
func registerMetrics(profile string) {
	registerOnce.Do(func() { legacyregistry.MustRegister(scoredPods, fallbacks, seconds, circuitOpen, sentStates) })
	scoredPods.WithLabelValues(profile).Add(0)
	circuitOpen.WithLabelValues(profile).Set(0)
	for _, reason := range reasons {
		fallbacks.WithLabelValues(profile, string(reason)).Add(0)
	}
}
