package gateway

import "github.com/prometheus/client_golang/prometheus"

// described is the part of a collector that describes its metrics.
type described struct{ descs []*prometheus.Desc }

// describe adds a metric to those that Describe describes.
func (d *described) describe(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	d.descs = append(d.descs, desc)
	return desc
}

// Describe describes the metrics.
func (d *described) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range d.descs {
		descs <- desc
	}
}

func gauge(out chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func counter(out chan<- prometheus.Metric, desc *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value, labels...)
}

// oneIf returns 1 if holds is true, otherwise 0.
func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}
