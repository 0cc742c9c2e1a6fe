// kube-scheduler with one more plugin: Pilotage, which asks a running `pilotage serve` how good each candidate is.
//
// Without a profile that names the plugin it behaves as kube-scheduler does.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics that kube-scheduler has too
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"pilotage/plugin/score"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(score.Name, score.New))))
}
