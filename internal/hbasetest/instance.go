package hbasetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// A Config specifies where and how an instance runs.
type Config struct {
	Dir  string // data, configuration and log; created if it does not exist
	Jars string // the folder that Jars returned
	Port int    // ZooKeeper's port; zero means a free port
	Heap string // heap size of the JVM; 768m by default
	// Tied makes the kernel kill the JVM when this process ends. If Tied is false, the
	// JVM continues to run.
	Tied bool

	// The master and the region server use the same ports after a restart. With other ports
	// they would wait until ZooKeeper notices that their predecessors have ended.
	masterPort, regionPort int
}

// An Instance is a running HBase of one JVM.
type Instance struct {
	c Config
	*jvm
}

// Run starts an instance and returns when it accepts writes.
func Run(ctx context.Context, c Config) (*Instance, error) {
	if err := c.prepare(1); err != nil {
		return nil, err
	}
	i := &Instance{c: c}
	return i, i.Restart(ctx)
}

// prepare sets defaults and writes the configuration of an HBase that has the given
// number of region servers.
func (c *Config) prepare(servers int) (err error) {
	if c.Heap == "" {
		c.Heap = "768m" // each family that is written to takes 2 MB
	}
	for _, port := range []*int{&c.Port, &c.masterPort, &c.regionPort} {
		if *port == 0 {
			if *port, err = freePort(); err != nil {
				return err
			}
		}
	}
	if c.Dir, err = filepath.Abs(c.Dir); err != nil {
		return err
	}
	return configure(*c, servers)
}

// Quorum returns the ZooKeeper quorum in the form of a store's URL.
func (i *Instance) Quorum() string { return i.c.quorum() }

func (c *Config) quorum() string { return fmt.Sprintf("127.0.0.1:%d", c.Port) }

// Restart starts the JVM again after Kill, on the same data and port.
func (i *Instance) Restart(ctx context.Context) (err error) {
	if i.jvm, err = i.c.start("master.HMaster", "start"); err != nil {
		return err
	}
	return i.c.ready(ctx, i.jvm)
}

// ready waits until a table can be created and accepts a Put. If the process j ends
// first, ready returns an error.
func (c *Config) ready(ctx context.Context, j *jvm) error {
	for {
		err := Probe(ctx, c.quorum())
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			j.Kill()
			return fmt.Errorf("HBase did not get ready: %w\n%s", err, c.tail())
		case <-j.done:
			return fmt.Errorf("HBase ended at once:\n%s", c.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Config) logFile() string { return filepath.Join(c.Dir, "hbase.log") }

// tail returns the end of the log.
func (c *Config) tail() string {
	b, err := os.ReadFile(c.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// freePort returns a free port below the ports that systems use for outgoing
// connections. ZooKeeper binds the port later, and fails if a connection uses it by
// then.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := 20000 + rand.IntN(10000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, last
}

func configure(c Config, servers int) error {
	conf := filepath.Join(c.Dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(conf, "hbase-site.xml"))
	if err != nil {
		return err
	}
	log := os.WriteFile(filepath.Join(conf, "log4j2.properties"), []byte(log4j), 0o644)
	return errors.Join(site.Execute(f, settings{c, servers, c.masterPort, c.regionPort}), f.Close(), log)
}

const log4j = `status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{2}: %.500m%n
rootLogger = WARN,out
`

// settings has the values that are inserted into the template site.
type settings struct {
	Config
	Servers, MasterPort, RegionPort int
}

// site is the configuration of HBase. It keeps all data in one folder and all connections
// on the loopback interface, and shortens waits that only make sense on a cluster. The
// memstores allocate memory as needed. With MSLAB they would allocate a chunk of 2 MB for
// every family of every region, and the tables of a few tests would exhaust the heap.
// HBase hardly ever updates its own metrics, because that takes CPU time from the tests.
// Within seconds it deletes the files that a compaction has replaced. With several JVMs,
// HBase notices after three seconds that a JVM has died. With a shorter time, HBase
// would treat slow JVMs on a busy machine as dead.
var site = template.Must(template.New("hbase-site.xml").Parse(`<configuration>
<property><name>hbase.cluster.distributed</name><value>{{gt .Servers 1}}</value></property>
<property><name>hbase.rootdir</name><value>file://{{.Dir}}/data</value></property>
<property><name>hbase.tmp.dir</name><value>{{.Dir}}/tmp</value></property>
<property><name>hbase.unsafe.stream.capability.enforce</name><value>false</value></property>
<property><name>hbase.zookeeper.quorum</name><value>127.0.0.1</value></property>
<property><name>hbase.zookeeper.property.dataDir</name><value>{{.Dir}}/zk</value></property>
<property><name>hbase.zookeeper.property.clientPort</name><value>{{.Port}}</value></property>
<property><name>hbase.zookeeper.property.clientPortAddress</name><value>127.0.0.1</value></property>
<property><name>hbase.master.hostname</name><value>localhost</value></property>
<property><name>hbase.master.ipc.address</name><value>127.0.0.1</value></property>
<property><name>hbase.master.port</name><value>{{.MasterPort}}</value></property>
<property><name>hbase.master.info.port</name><value>-1</value></property>
<property><name>hbase.regionserver.hostname</name><value>localhost</value></property>
<property><name>hbase.regionserver.ipc.address</name><value>127.0.0.1</value></property>
<property><name>hbase.regionserver.port</name><value>{{.RegionPort}}</value></property>
<property><name>hbase.regionserver.info.port</name><value>-1</value></property>
<property><name>hbase.master.wait.on.regionservers.mintostart</name><value>{{.Servers}}</value></property>
<property><name>hbase.master.wait.on.regionservers.maxtostart</name><value>{{.Servers}}</value></property>
<property><name>hbase.master.wait.on.regionservers.interval</name><value>100</value></property>
<property><name>hbase.regionserver.msginterval</name><value>500</value></property>
<property><name>hbase.regionserver.metrics.period</name><value>600000</value></property>
<property><name>hbase.hfile.compaction.discharger.interval</name><value>500</value></property>
<property><name>hbase.master.cleaner.interval</name><value>3000</value></property>
<property><name>hbase.master.hfilecleaner.ttl</name><value>1000</value></property>
<property><name>hbase.master.logcleaner.ttl</name><value>1000</value></property>
<property><name>hbase.hregion.memstore.mslab.enabled</name><value>false</value></property>
{{- if gt .Servers 1}}
<property><name>zookeeper.session.timeout</name><value>3000</value></property>
<property><name>hbase.zookeeper.property.tickTime</name><value>500</value></property>
<property><name>hbase.zookeeper.property.minSessionTimeout</name><value>3000</value></property>
{{- end}}
</configuration>
`))
