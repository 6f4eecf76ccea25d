// Package scrape exposes the metrics of package monitor to Prometheus.
package scrape

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
)

// Registry returns a registry with the metrics of a process. From then on [monitor.Metrics.Figures] returns the
// figures of all metrics in it, including those that callers register later.
func Registry(m *monitor.Metrics) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.SetFigures(func() []monitor.Figure { return figures(r) })
	return r
}

// A collector implements prometheus.Collector.
type collector struct{ *monitor.Metrics }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range c.Families() {
		ch <- desc(f)
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, f := range c.Families() {
		d := desc(f)
		for _, s := range f.Series {
			switch f.Kind {
			case monitor.Count:
				ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, s.Value, s.Labels...)
			case monitor.Gauge:
				ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, s.Value, s.Labels...)
			case monitor.Durations:
				ch <- prometheus.MustNewConstHistogram(d, s.Count, s.Value, s.Buckets, s.Labels...)
			}
		}
	}
}

func desc(f monitor.Family) *prometheus.Desc {
	return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
}

// figures returns the gauges and counters of the server. What cannot be read now is left out.
func figures(r *prometheus.Registry) (all []monitor.Figure) {
	families, _ := r.Gather() // an error is of single families, which are left out
	for _, f := range families {
		name, ours := strings.CutPrefix(f.GetName(), "ldapd_")
		if !ours {
			continue
		}
		for _, x := range f.GetMetric() {
			var v float64
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				v = x.GetGauge().GetValue()
			case dto.MetricType_COUNTER:
				v = x.GetCounter().GetValue()
			default:
				continue // histograms are for Prometheus
			}
			all = append(all, monitor.Figure{Name: name, Labels: labels(x), Value: v})
		}
	}
	return all
}

func labels(x *dto.Metric) string {
	var all []string
	for _, l := range x.GetLabel() {
		all = append(all, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return strings.Join(all, ",")
}
