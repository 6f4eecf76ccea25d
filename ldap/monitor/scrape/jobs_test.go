package scrape_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor/scrape"
)

// TestJobs checks the metrics of running jobs, with known and unknown progress, and of jobs
// that have ended.
func TestJobs(t *testing.T) {
	m := monitor.New("test")
	r := scrape.Registry(m)
	done := 0.25
	progress := func() (float64, bool) { return done, done > 0 }
	begin := func(name string) *monitor.Job {
		_, x := m.Jobs.Begin(t.Context(), name, "", nil)
		return x
	}
	first, second, check := begin("import"), begin("import"), begin("check")
	first.Measure(progress)
	second.Measure(func() (float64, bool) { return 0.75, true })
	check.End(nil)
	expect := func(want string) {
		t.Helper()
		if err := testutil.GatherAndCompare(r, strings.NewReader(want), "ldapd_jobs", "ldapd_job_progress_ratio"); err != nil {
			t.Error(err)
		}
	}
	const head = `# HELP ldapd_jobs Jobs of tools that the server does now.
# TYPE ldapd_jobs gauge
ldapd_jobs{job="check"} 0
`
	const ratio = `# HELP ldapd_job_progress_ratio How much of its input the job has read, of several jobs of one name the one that is least far; absent where it is unknown.
# TYPE ldapd_job_progress_ratio gauge
`
	expect(head + "ldapd_jobs{job=\"import\"} 2\n" + ratio + "ldapd_job_progress_ratio{job=\"import\"} 0.25\n")
	done = 0
	expect(head + "ldapd_jobs{job=\"import\"} 2\n" + ratio + "ldapd_job_progress_ratio{job=\"import\"} 0.75\n")
	second.End(nil)
	expect(head + "ldapd_jobs{job=\"import\"} 1\n")
}
