package hbasetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
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
	// Properties and Core are further settings, of HBase and of Hadoop, Flags flags of the JVM.
	Properties, Core [][2]string
	Flags            []string
	// Dial and DialZooKeeper connect to an HBase with Properties, as User. If they are nil, none of them is needed.
	Dial, DialZooKeeper func(ctx context.Context, network, addr string) (net.Conn, error)
	User                string

	// The master and the region server use the same ports after a restart. With other ports
	// they would wait until ZooKeeper notices that their predecessors have ended.
	masterPort, regionPort int

	record string // file into which the JVM writes its classes when it ends: see classData
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
	return c.configure(servers)
}

// Quorum returns the ZooKeeper quorum in the form of a store's URL.
func (i *Instance) Quorum() string { return i.c.quorum() }

// Servers returns the master and the region server, which have an RPC connection registry, in the form of a store's URL.
func (i *Instance) Servers() string {
	return fmt.Sprintf("localhost:%d,localhost:%d", i.c.masterPort, i.c.regionPort)
}

func (c *Config) quorum() string { return fmt.Sprintf("127.0.0.1:%d", c.Port) }

// Restart starts the JVM again after Kill, on the same data and port.
func (i *Instance) Restart(ctx context.Context) (err error) {
	args := []string{"start"}
	if i.c.record != "" {
		args = append(i.c.arguments(), args...) // there is no file with the configuration in the class path
	}
	if i.jvm, err = i.c.start("master.HMaster", args...); err != nil {
		return err
	}
	return i.c.ready(ctx, i.jvm)
}

// ready waits until a table can be created and accepts a Put. If the process j ends
// first, ready returns an error.
func (c *Config) ready(ctx context.Context, j *jvm) error {
	for {
		err := c.probe(ctx)
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

// configure writes the configuration files of an HBase.
func (c *Config) configure(servers int) error {
	conf := filepath.Join(c.Dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return err
	}
	log := os.WriteFile(filepath.Join(conf, "log4j.properties"), []byte(log4j), 0o644)
	return errors.Join(writeSite(conf, "hbase-site.xml", append(c.properties(servers), c.Properties...)), writeSite(conf, "core-site.xml", c.Core), log)
}

func writeSite(dir, name string, properties [][2]string) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(site.Execute(f, properties), f.Close())
}

const log4j = `log4j.rootLogger=WARN,out
log4j.logger.org.apache.zookeeper=ERROR
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %c{2}: %.500m%n
`

var site = template.Must(template.New("hbase-site.xml").Parse(`<configuration>
{{- range .}}
<property><name>{{index . 0}}</name><value>{{index . 1}}</value></property>
{{- end}}
</configuration>
`))

// arguments returns the configuration of an HBase with one region server as arguments.
func (c *Config) arguments() (args []string) {
	for _, p := range c.properties(1) {
		args = append(args, "-D", p[0]+"="+p[1])
	}
	return args
}

// properties returns the names and values of HBase's configuration. It keeps all data in one
// folder and all connections on the loopback interface, and shortens waits that only make
// sense on a cluster. The memstores allocate memory as needed. With MSLAB they would allocate
// a chunk of 2 MB for every family of every region, and the tables of a few tests would
// exhaust the heap. HBase hardly ever updates its own metrics and keeps none of tables and users,
// because that takes CPU time from the tests, and half of the heap with a hundred tables. What HBase does
// periodically with all regions and all files, it does as rarely as tests can wait for: the region server's reports, the removal of
// files that a compaction has replaced, and the deletion of what nobody needs.
func (c *Config) properties(servers int) [][2]string {
	number := strconv.Itoa
	p := [][2]string{
		{"hbase.cluster.distributed", strconv.FormatBool(servers > 1)},
		{"hbase.rootdir", "file://" + c.Dir + "/data"},
		// Hadoop's own class runs chmod for each new file and folder.
		{"fs.file.impl", "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"},
		{"hbase.tmp.dir", c.Dir + "/tmp"},
		{"hbase.unsafe.stream.capability.enforce", "false"},
		{"hbase.zookeeper.quorum", "127.0.0.1"},
		{"hbase.zookeeper.property.dataDir", c.Dir + "/zk"},
		{"hbase.zookeeper.property.clientPort", number(c.Port)},
		{"hbase.zookeeper.property.clientPortAddress", "127.0.0.1"},
		{"hbase.master.hostname", "localhost"},
		{"hbase.master.ipc.address", "127.0.0.1"},
		{"hbase.master.port", number(c.masterPort)},
		{"hbase.master.info.port", "-1"},
		{"hbase.regionserver.hostname", "localhost"},
		{"hbase.regionserver.ipc.address", "127.0.0.1"},
		{"hbase.regionserver.port", number(c.regionPort)},
		{"hbase.regionserver.info.port", "-1"},
		{"hbase.master.wait.on.regionservers.mintostart", number(servers)},
		{"hbase.master.wait.on.regionservers.maxtostart", number(servers)},
		{"hbase.master.wait.on.regionservers.interval", "100"},
		{"hbase.regionserver.msginterval", "1500"},
		{"hbase.regionserver.metrics.period", "600000"},
		{"hbase.regionserver.enable.table.latencies", "false"},
		{"hbase.regionserver.user.metrics.enabled", "false"},
		{"hbase.hfile.compaction.discharger.interval", "1000"},
		{"hbase.master.cleaner.interval", "6000"},
		{"hbase.master.hfilecleaner.ttl", "1000"},
		{"hbase.master.logcleaner.ttl", "1000"},
		{"hbase.hregion.memstore.mslab.enabled", "false"},
	}
	if servers > 1 {
		// HBase notices after three seconds that a JVM has died. With a shorter time, HBase
		// would treat slow JVMs on a busy machine as dead.
		p = append(p, [2]string{"zookeeper.session.timeout", "3000"},
			[2]string{"hbase.zookeeper.property.tickTime", "500"},
			[2]string{"hbase.zookeeper.property.minSessionTimeout", "3000"})
	}
	return p
}
