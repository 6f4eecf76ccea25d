package monitor

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Jobs are the jobs that a server does for tools beside its operations, such as an import.
type Jobs struct {
	mu      sync.Mutex
	running map[*Job]bool
	counted map[string]bool // the names of all jobs since the start
}

// A Job is a job that runs.
type Job struct {
	jobs     *Jobs
	name     string
	progress func() (ratio float64, known bool)
}

func newJobs(r prometheus.Registerer) *Jobs {
	j := &Jobs{running: map[*Job]bool{}, counted: map[string]bool{}}
	r.MustRegister(j)
	return j
}

// Begin notes that a job begins. The name must be one of a fixed set of names.
func (j *Jobs) Begin(name string) *Job {
	x := &Job{jobs: j, name: name}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running[x], j.counted[name] = true, true
	return x
}

// Measure sets the function that returns how much of the job is done, from 0 to 1.
func (x *Job) Measure(progress func() (ratio float64, known bool)) {
	x.jobs.mu.Lock()
	defer x.jobs.mu.Unlock()
	x.progress = progress
}

// End notes that a job has ended.
func (x *Job) End() {
	x.jobs.mu.Lock()
	defer x.jobs.mu.Unlock()
	delete(x.jobs.running, x)
}

var (
	jobsDesc     = prometheus.NewDesc("ldapd_jobs", "Jobs of tools that the server does now.", []string{"job"}, nil)
	progressDesc = prometheus.NewDesc("ldapd_job_progress_ratio", "How much of its input the job has read, of several jobs of one name the one that is least far; absent where it is unknown.", []string{"job"}, nil)
)

// Describe implements prometheus.Collector.
func (j *Jobs) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsDesc
	ch <- progressDesc
}

// Collect implements prometheus.Collector.
func (j *Jobs) Collect(ch chan<- prometheus.Metric) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n, least := map[string]int{}, map[string]float64{}
	for x := range j.running {
		n[x.name]++
		if x.progress == nil {
			continue
		}
		ratio, known := x.progress()
		if other, seen := least[x.name]; known && (!seen || ratio < other) {
			least[x.name] = ratio
		}
	}
	for name := range j.counted {
		ch <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(n[name]), name)
	}
	for name, ratio := range least {
		ch <- prometheus.MustNewConstMetric(progressDesc, prometheus.GaugeValue, ratio, name)
	}
}
