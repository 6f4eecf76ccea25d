package hbasetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A Cluster is an HBase of several JVMs on this machine: ZooKeeper, a master, and
// region servers. A test can kill each JVM separately. A master or a region server that ends by itself, because
// it was too slow to keep its session with ZooKeeper, is started again.
type Cluster struct {
	c Config

	mu                sync.Mutex
	zookeeper, master *jvm
	regions           []*jvm // nil while a test has killed it
}

// StartCluster runs a cluster with a number of region servers, and further settings of HBase, until the test ends.
func StartCluster(tb testing.TB, regionServers int, properties ...[2]string) *Cluster {
	tb.Helper()
	need(tb)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	folder, err := exclusive(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	jars, err := Jars(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(folder, "cluster")
	c := &Cluster{}
	tb.Cleanup(func() {
		c.end()
		os.RemoveAll(dir)
	})
	for try := 0; ; try++ {
		c.c = Config{Dir: dir, Jars: jars, Tied: true, Properties: properties}
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		err := c.run(limited, regionServers)
		cancel()
		if err == nil {
			go c.supervise()
			return c
		}
		if c.end(); try == 2 {
			tb.Fatalf("starting HBase: %v", err)
		}
	}
}

// run starts all JVMs of the cluster on an empty folder.
func (c *Cluster) run(ctx context.Context, regionServers int) (err error) {
	if err := os.RemoveAll(c.c.Dir); err != nil {
		return err
	}
	if err := c.c.prepare(regionServers); err != nil {
		return err
	}
	if c.zookeeper, err = c.c.start("zookeeper.HQuorumPeer", "start"); err != nil {
		return err
	}
	if err := c.startMaster(); err != nil {
		return err
	}
	c.regions = make([]*jvm, regionServers)
	for i := range c.regions {
		if err := c.StartRegionServer(i); err != nil {
			return err
		}
	}
	return c.c.ready(ctx, c.master)
}

func (c *Cluster) startMaster() (err error) {
	c.master, err = c.c.start("master.HMaster", "start")
	return err
}

// supervise starts JVMs again until the cluster ends.
func (c *Cluster) supervise() {
	for range time.Tick(500 * time.Millisecond) {
		c.mu.Lock()
		if c.master == nil {
			c.mu.Unlock()
			return
		}
		if c.master.ended() {
			_ = c.startMaster() // the next time, if it fails
		}
		for i, j := range c.regions {
			if j != nil && j.ended() {
				_ = c.startRegionServer(i)
			}
		}
		c.mu.Unlock()
	}
}

// StartRegionServer starts a region server. It can also start a killed region server again.
func (c *Cluster) StartRegionServer(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startRegionServer(i)
}

func (c *Cluster) startRegionServer(i int) error {
	port, err := freePort()
	if err == nil {
		c.regions[i], err = c.c.start("regionserver.HRegionServer", "-D", fmt.Sprintf("hbase.regionserver.port=%d", port), "start")
	}
	return err
}

// KillRegionServer kills a region server, as a crash would.
func (c *Cluster) KillRegionServer(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.regions[i].Kill()
	c.regions[i] = nil
}

// PauseRegionServer stops the JVM of a region server without ending it, until the returned function is called. HBase takes the
// region server for dead after a while, and it ends when it continues.
func (c *Cluster) PauseRegionServer(i int) (resume func() error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.regions[i].Resume, c.regions[i].Pause()
}

// PauseZooKeeper does the same with ZooKeeper.
func (c *Cluster) PauseZooKeeper() (resume func() error, err error) {
	return c.zookeeper.Resume, c.zookeeper.Pause()
}

// Quorum returns the ZooKeeper quorum in the form of a store's URL.
func (c *Cluster) Quorum() string { return c.c.quorum() }

// end kills all JVMs.
func (c *Cluster) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range append([]*jvm{c.master, c.zookeeper}, c.regions...) {
		if j != nil && j.cmd.Process != nil {
			j.Kill()
		}
	}
	c.master, c.zookeeper, c.regions = nil, nil, nil
}
