package hbasetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// Config says where and how an instance runs.
type Config struct {
	Dir  string // data, configuration and log; made if missing
	Jars string // the folder that Jars gave
	Port int    // ZooKeeper's; zero chooses a free one
	Heap string // of the JVM; 256m by default
	// Tied has the kernel kill the JVM when this process ends. Otherwise the JVM
	// goes on without it.
	Tied bool
}

// An Instance is a running HBase of one JVM.
type Instance struct {
	c    Config
	cmd  *exec.Cmd
	done chan struct{} // closed when the JVM is gone
}

// Run starts an instance and returns when it takes writes.
func Run(ctx context.Context, c Config) (*Instance, error) {
	if c.Heap == "" {
		c.Heap = "256m"
	}
	if c.Port == 0 {
		p, err := freePort()
		if err != nil {
			return nil, err
		}
		c.Port = p
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, err
	}
	c.Dir = dir
	if err := configure(c); err != nil {
		return nil, err
	}
	i := &Instance{c: c}
	return i, i.Restart(ctx)
}

// Quorum is the ZooKeeper quorum as a store's URL has it.
func (i *Instance) Quorum() string { return fmt.Sprintf("127.0.0.1:%d", i.c.Port) }

// PID is the process id of the JVM.
func (i *Instance) PID() int { return i.cmd.Process.Pid }

// Restart starts the JVM again after Kill, on the same data and port.
func (i *Instance) Restart(ctx context.Context) error {
	log, err := os.OpenFile(i.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	i.cmd = exec.Command("java", "-Xmx"+i.c.Heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", filepath.Join(i.c.Dir, "conf")+":"+i.c.Jars+"/*",
		"org.apache.hadoop.hbase.master.HMaster", "start")
	i.cmd.Dir, i.cmd.Stdout, i.cmd.Stderr = i.c.Dir, log, log
	i.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if i.c.Tied {
		i.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	i.done = make(chan struct{})
	started := make(chan error, 1)
	go i.watch(started)
	if err := <-started; err != nil {
		return err
	}
	return i.ready(ctx)
}

// watch starts the JVM and reaps it. The parent-death signal is bound to the
// thread that forked, so that thread must live as long as the JVM.
func (i *Instance) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(i.done)
	err := i.cmd.Start()
	started <- err
	if err == nil {
		_ = i.cmd.Wait()
	}
}

// Kill ends the JVM with SIGKILL, as a crash would. Acknowledged writes stay.
func (i *Instance) Kill() {
	_ = i.cmd.Process.Kill()
	<-i.done
}

// Pause stops the JVM without ending it; Resume lets it go on.
func (i *Instance) Pause() error { return i.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (i *Instance) Resume() error { return i.cmd.Process.Signal(syscall.SIGCONT) }

func (i *Instance) logFile() string { return filepath.Join(i.c.Dir, "hbase.log") }

// ready waits until the instance has created a table and taken a Put.
func (i *Instance) ready(ctx context.Context) error {
	for {
		err := Probe(ctx, i.Quorum())
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			i.Kill()
			return fmt.Errorf("HBase did not get ready: %w\n%s", err, i.tail())
		case <-i.done:
			return fmt.Errorf("HBase ended at once:\n%s", i.tail())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// tail is the end of the log.
func (i *Instance) tail() string {
	b, err := os.ReadFile(i.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// freePort finds a free port below those that systems give to outgoing
// connections: ZooKeeper binds it a while later, and gives up if some
// connection has it by then.
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

func configure(c Config) error {
	conf := filepath.Join(c.Dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(conf, "hbase-site.xml"))
	if err != nil {
		return err
	}
	log := os.WriteFile(filepath.Join(conf, "log4j2.properties"), []byte(log4j), 0o644)
	return errors.Join(site.Execute(f, c), f.Close(), log)
}

const log4j = `status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{2}: %.500m%n
rootLogger = WARN,out
`

// site keeps all in one folder and on the loopback, and shortens the waits that
// make sense on a cluster only. The memstores take memory as they need it: by
// chunks of 2 MB for every family of every region (MSLAB), the heap would end
// with the tables of a few tests.
var site = template.Must(template.New("hbase-site.xml").Parse(`<configuration>
<property><name>hbase.cluster.distributed</name><value>false</value></property>
<property><name>hbase.rootdir</name><value>file://{{.Dir}}/data</value></property>
<property><name>hbase.tmp.dir</name><value>{{.Dir}}/tmp</value></property>
<property><name>hbase.unsafe.stream.capability.enforce</name><value>false</value></property>
<property><name>hbase.zookeeper.quorum</name><value>127.0.0.1</value></property>
<property><name>hbase.zookeeper.property.dataDir</name><value>{{.Dir}}/zk</value></property>
<property><name>hbase.zookeeper.property.clientPort</name><value>{{.Port}}</value></property>
<property><name>hbase.zookeeper.property.clientPortAddress</name><value>127.0.0.1</value></property>
<property><name>hbase.master.hostname</name><value>localhost</value></property>
<property><name>hbase.master.ipc.address</name><value>127.0.0.1</value></property>
<property><name>hbase.master.port</name><value>0</value></property>
<property><name>hbase.master.info.port</name><value>-1</value></property>
<property><name>hbase.regionserver.hostname</name><value>localhost</value></property>
<property><name>hbase.regionserver.ipc.address</name><value>127.0.0.1</value></property>
<property><name>hbase.regionserver.port</name><value>0</value></property>
<property><name>hbase.regionserver.info.port</name><value>-1</value></property>
<property><name>hbase.master.wait.on.regionservers.mintostart</name><value>1</value></property>
<property><name>hbase.master.wait.on.regionservers.maxtostart</name><value>1</value></property>
<property><name>hbase.master.wait.on.regionservers.interval</name><value>100</value></property>
<property><name>hbase.regionserver.msginterval</name><value>200</value></property>
<property><name>hbase.hregion.memstore.mslab.enabled</name><value>false</value></property>
</configuration>
`))
