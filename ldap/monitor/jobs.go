package monitor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// Jobs records the jobs of a server. A job is work that a tool or the administrator requests and
// that is not an LDAP operation, such as an import.
type Jobs struct {
	mu      sync.Mutex
	last    int             // the number of the last job
	known   []*Job          // the running jobs and the last that have ended, in the order of their beginning
	counted map[string]bool // the names of all jobs since the start
}

// A Job is a job that runs or has run. What is written to it is the job's output.
type Job struct {
	jobs     *Jobs
	view     JobView
	cancel   context.CancelCauseFunc
	progress func() (ratio float64, known bool)
}

// A JobView describes one job.
type JobView struct {
	Number     int
	Name       string
	Arguments  []string // as on the command line; nil for a job of a tool
	Who        string   // DN of who requested it
	Begun      time.Time
	Ended      time.Time // zero: it runs
	Error      string    // why it failed
	Ratio      float64   // how much of its input it has read, from 0 to 1; negative: unknown
	Output     string    // the last part of the output; a job of a tool writes to its tool instead
	IsCanceled bool      // somebody has canceled it; it may still run
}

const (
	maxEnded  = 20       // how many jobs that have ended are kept
	maxOutput = 16 << 10 // how many octets of a job's output are kept
)

// These are the errors of Cancel.
var (
	ErrNoJob    = errors.New("there is no such job")
	ErrJobEnded = errors.New("the job has ended")
)

var errJobCanceled = errors.New("the job was canceled")

func newJobs() *Jobs { return &Jobs{counted: map[string]bool{}} }

// Begin notes that a job begins. The job must run in the returned context, which ends when the job
// is canceled. Callers must take the name from a fixed set, because States lists every name that
// was ever used.
func (j *Jobs) Begin(ctx context.Context, name, who string, arguments []string) (context.Context, *Job) {
	ctx, cancel := context.WithCancelCause(ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	x := &Job{jobs: j, cancel: cancel, view: JobView{Number: j.last, Name: name, Who: who, Arguments: arguments, Begun: time.Now()}}
	j.known, j.counted[name] = append(j.known, x), true
	return ctx, x
}

// Cancel cancels a job.
func (j *Jobs) Cancel(number int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := slices.IndexFunc(j.known, func(x *Job) bool { return x.view.Number == number })
	switch {
	case i < 0:
		return ErrNoJob
	case !j.known[i].runs():
		return ErrJobEnded
	}
	j.known[i].view.IsCanceled = true
	j.known[i].cancel(errJobCanceled)
	return nil
}

// List describes the running jobs and the last that have ended, in the order of their beginning.
func (j *Jobs) List() []JobView {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]JobView, len(j.known))
	for i, x := range j.known {
		all[i] = x.view
		all[i].Ratio = x.ratio()
	}
	return all
}

func (x *Job) runs() bool { return x.view.Ended.IsZero() }

func (x *Job) ratio() float64 {
	if x.progress != nil {
		if ratio, known := x.progress(); known {
			return ratio
		}
	}
	return -1
}

// Number returns the number of the job.
func (x *Job) Number() int { return x.view.Number }

// Write implements io.Writer.
func (x *Job) Write(p []byte) (int, error) {
	x.jobs.mu.Lock()
	defer x.jobs.mu.Unlock()
	out := x.view.Output + string(p)
	x.view.Output = strings.ToValidUTF8(out[max(0, len(out)-maxOutput):], "?")
	return len(p), nil
}

// Measure sets the function that returns how much of its input the job has read, from 0
// to 1. known is false if the function cannot return a ratio.
func (x *Job) Measure(progress func() (ratio float64, known bool)) {
	x.jobs.mu.Lock()
	defer x.jobs.mu.Unlock()
	x.progress = progress
}

// End notes that a job has ended, with nil or the error for which it failed.
func (x *Job) End(err error) {
	x.cancel(nil)
	j := x.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	x.view.Ended = time.Now()
	if err != nil {
		x.view.Error = err.Error()
	}
	ended := 0
	for i := len(j.known) - 1; i >= 0; i-- {
		if j.known[i].runs() {
			continue
		}
		if ended++; ended > maxEnded {
			j.known = slices.Delete(j.known, i, i+1)
		}
	}
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
	for _, x := range j.known {
		if !x.runs() {
			continue
		}
		s := by[x.view.Name]
		s.Running++
		if ratio := x.ratio(); ratio >= 0 && (s.Ratio < 0 || ratio < s.Ratio) {
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

func (j *Jobs) families() []Family {
	jobs := Family{"ldapd_jobs", "Jobs of tools that the server does now.", Gauge, []string{"job"}, nil}
	progress := Family{"ldapd_job_progress_ratio", "How much of its input the job has read, of several jobs of one name the one that is least far; absent where it is unknown.", Gauge, []string{"job"}, nil}
	for _, s := range j.States() {
		jobs.Series = append(jobs.Series, Series{Labels: []string{s.Name}, Value: float64(s.Running)})
		if s.Ratio >= 0 {
			progress.Series = append(progress.Series, Series{Labels: []string{s.Name}, Value: s.Ratio})
		}
	}
	return []Family{jobs, progress}
}
