package monitor

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Jobs records the jobs of a server. A job is work that a tool requests and that is not
// an LDAP operation, such as an import.
type Jobs struct {
	mu      sync.Mutex
	running map[*Job]bool
	counted map[string]bool // the names of all jobs since the start
}

// A Job is a running job.
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

// Begin notes that a job begins. Callers must take the name from a fixed set, because
// States lists every name that was ever used.
func (j *Jobs) Begin(name string) *Job {
	x := &Job{jobs: j, name: name}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running[x], j.counted[name] = true, true
	return x
}

// Measure sets the function that returns how much of its input the job has read, from 0
// to 1. known is false if the function cannot return a ratio.
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

// A JobState describes the running jobs that have one name.
type JobState struct {
	Name    string
	Running int
	// Ratio is how much of its input a job has read, from 0 to 1. If several jobs with
	// this name run, Ratio is the smallest of their known ratios. If no ratio is known,
	// Ratio is negative.
	Ratio float64
}

// States returns the states of all jobs that run or have run, sorted by name.
func (j *Jobs) States() []JobState {
	j.mu.Lock()
	defer j.mu.Unlock()
	by := map[string]*JobState{}
	for name := range j.counted {
		by[name] = &JobState{Name: name, Ratio: -1}
	}
	for x := range j.running {
		s := by[x.name]
		s.Running++
		if x.progress == nil {
			continue
		}
		if ratio, known := x.progress(); known && (s.Ratio < 0 || ratio < s.Ratio) {
			s.Ratio = ratio
		}
	}
	all := make([]JobState, 0, len(by))
	for _, s := range by {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b JobState) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Collect implements prometheus.Collector.
func (j *Jobs) Collect(ch chan<- prometheus.Metric) {
	for _, s := range j.States() {
		ch <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(s.Running), s.Name)
		if s.Ratio >= 0 {
			ch <- prometheus.MustNewConstMetric(progressDesc, prometheus.GaugeValue, s.Ratio, s.Name)
		}
	}
}
