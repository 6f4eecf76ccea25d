package virtual

import (
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/seed-4dac0d86/ldapd/directory/internal/request"
	"github.com/seed-4dac0d86/ldapd/ldap/monitor"
	"github.com/seed-4dac0d86/ldapd/ldap/op"
)

// The entries below cn=monitor contain the counters that exporters read from OpenLDAP's
// slapd. The entries at and below cn=Jobs,cn=monitor show the jobs that the server does for
// tools. The entries cn=monitor and cn=snmp,cn=monitor contain the counters that exporters
// read from 389-ds. Each counter has the name that it has in the server whose exporters read
// it.

// slapdNames are the names of operations in slapd.
var slapdNames = map[monitor.Operation]string{
	monitor.Bind: "Bind", monitor.Unbind: "Unbind", monitor.Search: "Search", monitor.Compare: "Compare", monitor.Add: "Add",
	monitor.Modify: "Modify", monitor.Delete: "Delete", monitor.ModifyDN: "Modrdn", monitor.Abandon: "Abandon", monitor.Extended: "Extended",
}

// addTotals adds to the entry cn=monitor the attributes that cn=monitor has in 389-ds.
func addTotals(req *request.Request, top *Entry, r *monitor.Report) {
	initiated, completed := r.Operations()
	top.addClass(req, "extensibleObject")
	top.add(req.Schema, "monitoredInfo", "ldapd "+req.Server.Settings().Version)
	top.addCounts(req,
		"threads", int64(runtime.NumGoroutine()),
		"currentConnections", int64(r.Load.Connections()), "totalConnections", r.Connections,
		"currentConnectionsAtMaxThreads", int64(r.Load.Blocked), "maxThreadsPerConnHits", r.Blocked,
		"dTableSize", int64(r.Load.MaxConnections), "readWaiters", int64(r.Load.Connections()-r.Load.Busy),
		"opsInitiated", initiated, "opsCompleted", completed,
		"entriesSent", r.Entries, "bytesSent", r.Sent, "nbackEnds", int64(len(req.Server.Part.Config().Suffixes)))
	top.add(req.Schema, "currentTime", generalized(time.Now()))
	top.add(req.Schema, "startTime", generalized(r.Started))
}

// counted returns the entries that slapd has below cn=monitor, the entries of cn=Jobs, and
// the entry cn=snmp,cn=monitor, which 389-ds has.
func counted(req *request.Request, r *monitor.Report) (all []*Entry) {
	group := func(cn string, class string, children []child) {
		name := "cn=" + cn + "," + monitorName
		top := newEntry(req, name, class, "cn", cn)
		all = append(all, top)
		if class == "monitorOperation" {
			initiated, completed := r.Operations()
			top.addCounts(req, "monitorOpInitiated", initiated, "monitorOpCompleted", completed)
		}
		for _, c := range children {
			all = append(all, c.entry(req, name))
		}
	}
	running, waiting := r.Load.All()
	group("Connections", "monitorContainer", []child{
		count("Max File Descriptors", maxFiles()), count("Total", r.Connections), count("Current", int64(r.Load.Connections()))})
	var kinds []child
	for _, k := range monitor.Kinds() {
		kinds = append(kinds, child{slapdNames[k], "monitorOperation", []any{"monitorOpInitiated", r.Initiated[k], "monitorOpCompleted", r.Completed[k]}})
	}
	group("Operations", "monitorOperation", kinds)
	group("Statistics", "monitorContainer", []child{
		count("Bytes", r.Sent), count("PDU", r.Messages()), count("Entries", r.Entries), count("Referrals", r.References)})
	group("Threads", "monitorContainer", []child{
		object("Max", "monitoredInfo", strconv.Itoa(runtime.GOMAXPROCS(0))), object("Open", "monitoredInfo", strconv.Itoa(runtime.NumGoroutine())),
		object("Active", "monitoredInfo", strconv.Itoa(running)), object("Pending", "monitoredInfo", strconv.Itoa(waiting)),
		object("Backload", "monitoredInfo", strconv.Itoa(running+waiting))})
	group("Time", "monitorContainer", []child{
		object("Start", "monitorTimestamp", generalized(r.Started)), object("Current", "monitorTimestamp", generalized(time.Now())),
		object("Uptime", "monitoredInfo", strconv.Itoa(int(time.Since(r.Started).Seconds())))})
	group("Waiters", "monitorContainer", []child{
		count("Read", int64(r.Load.Connections()-r.Load.Busy)), count("Write", int64(r.Load.Writing))})
	var jobs []child
	for _, j := range r.Jobs {
		x := count(j.Name, int64(j.Running))
		if j.Ratio >= 0 {
			x.pairs = append(x.pairs, "monitoredInfo", fmt.Sprintf("%.0f%%", 100*j.Ratio))
		}
		jobs = append(jobs, x)
	}
	group("Jobs", "monitorContainer", jobs)
	all = append(all, listedJobs(req)...)
	log := newEntry(req, "cn=Log,"+monitorName, "monitoredObject", "cn", "Log")
	log.add(req.Schema, "monitoredInfo", req.Server.Settings().Metrics.Warnings.Lines()...)
	all = append(all, log)
	return append(all, snmp(req, r))
}

// listedJobs returns the entries of the running jobs and of the last that have ended, and one
// that lists the jobs that can be started.
func listedJobs(req *request.Request) (all []*Entry) {
	const above = ",cn=Jobs," + monitorName
	set := req.Server.Settings()
	if len(set.Jobs) > 0 {
		v := newEntry(req, "cn=offered"+above, "monitorJob", "cn", "offered")
		v.add(req.Schema, "jobOffered", set.Jobs...)
		all = append(all, v)
	}
	for _, j := range set.Metrics.Jobs.List() {
		state := "running"
		switch {
		case j.Ended.IsZero() && j.IsCanceled:
			state = "canceled"
		case j.Error != "":
			state = "failed"
		case !j.Ended.IsZero():
			state = "done"
		}
		progress := ""
		if j.Ratio >= 0 {
			progress = strconv.Itoa(int(100 * j.Ratio))
		}
		number := strconv.Itoa(j.Number)
		v := newEntry(req, "cn="+number+above, "monitorJob", "cn", number, "jobName", j.Name, "jobWho", j.Who, "jobState", state,
			"jobBegun", generalized(j.Begun), "jobEnded", generalized(j.Ended), "jobProgress", progress, "jobError", j.Error, "jobOutput", j.Output)
		v.add(req.Schema, "jobArgument", j.Arguments...)
		all = append(all, v)
	}
	return all
}

// A child is an entry below a group.
type child struct {
	cn, class string
	pairs     []any // names, each followed by its value: an int64 or a string
}

func count(cn string, n int64) child {
	return child{cn, "monitorCounterObject", []any{"monitorCounter", n}}
}

func object(cn, attribute, value string) child {
	return child{cn, "monitoredObject", []any{attribute, value}}
}

func (c child) entry(req *request.Request, above string) *Entry {
	v := newEntry(req, "cn="+c.cn+","+above, c.class, "cn", c.cn)
	v.addCounts(req, c.pairs...)
	return v
}

// addCounts adds attributes from pairs of a name and a value.
func (v *Entry) addCounts(req *request.Request, pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch x := pairs[i+1].(type) {
		case int64:
			v.add(req.Schema, name, strconv.FormatInt(x, 10))
		case string:
			v.add(req.Schema, name, x)
		}
	}
}

// addClass adds an object class to the entry.
func (v *Entry) addClass(req *request.Request, class string) {
	for i := range v.Entry.Attributes {
		if a := &v.Entry.Attributes[i]; a.Type == req.Known.ObjectClass {
			a.Values = append(a.Values, []byte(class))
		}
	}
}

// snmp returns the entry cn=snmp,cn=monitor of 389-ds.
func snmp(req *request.Request, r *monitor.Report) *Entry {
	v := newEntry(req, "cn=snmp,"+monitorName, "monitorContainer", "cn", "snmp")
	v.addClass(req, "extensibleObject")
	initiated, _ := r.Operations()
	strong := int64(0)
	for mechanism, n := range r.Binds {
		if mechanism != "simple" && mechanism != "anonymous" {
			strong += n
		}
	}
	security := r.Results[op.InvalidCredentials] + r.Results[op.InappropriateAuthentication] + r.Results[op.AuthMethodNotSupported] + r.Results[op.StrongerAuthRequired]
	v.addCounts(req,
		"anonymousBinds", r.Binds["anonymous"], "unauthBinds", r.Binds["anonymous"], "simpleAuthBinds", r.Binds["simple"], "strongAuthBinds", strong,
		"bindSecurityErrors", security, "inOps", initiated,
		"compareOps", r.Initiated[monitor.Compare], "addEntryOps", r.Initiated[monitor.Add], "removeEntryOps", r.Initiated[monitor.Delete],
		"modifyEntryOps", r.Initiated[monitor.Modify], "modifyRDNOps", r.Initiated[monitor.ModifyDN], "searchOps", r.Initiated[monitor.Search],
		"oneLevelSearchOps", r.OneLevel, "wholeSubtreeSearchOps", r.Subtree, "readOps", r.Base,
		"referrals", r.Results[op.Referral], "securityErrors", security+r.Results[op.InsufficientAccessRights], "errors", r.Errors(),
		"connections", int64(r.Load.Connections()), "connectionSeq", r.Connections,
		"connectionsInMaxThreads", int64(r.Load.Blocked), "connectionsMaxThreadsCount", r.Blocked,
		"bytesRecv", r.Received, "bytesSent", r.Sent, "entriesReturned", r.Entries, "referralsReturned", r.References)
	return v
}
