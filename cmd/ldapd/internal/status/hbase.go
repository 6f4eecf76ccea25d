package status

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// HBase gathers the metrics that the client of HBase registers with Prometheus's default
// registry. Families with a series for each region server are left out, because a large cluster
// would have thousands of series.
var HBase = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
	all, err := prometheus.DefaultGatherer.Gather()
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
		return !strings.HasPrefix(f.GetName(), "gohbase_") || slices.ContainsFunc(f.Metric, isOfServer)
	}), err
})

func isOfServer(m *dto.Metric) bool {
	return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == "regionserver" })
}
