package hbasetest

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// A jvm is a Java process.
type jvm struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// start starts a Java process that runs a class of HBase.
func (c *Config) start(class string, args ...string) (*jvm, error) {
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	j := &jvm{done: make(chan struct{})}
	flags := append([]string{"-Xmx" + c.Heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}, c.classFlags()...)
	j.cmd = exec.Command("java", slices.Concat(flags, c.Flags, []string{"org.apache.hadoop.hbase." + class}, args)...)
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = c.Dir, log, log
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.Tied {
		j.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error, 1)
	go j.watch(started)
	return j, <-started
}

// watch starts the JVM and waits for its end. The kernel kills the JVM when the thread
// that forked it ends, so watch locks that thread until the JVM has ended.
func (j *jvm) watch(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(j.done)
	err := j.cmd.Start()
	started <- err
	if err == nil {
		_ = j.cmd.Wait()
	}
}

// PID returns the process id of the JVM.
func (j *jvm) PID() int { return j.cmd.Process.Pid }

// Kill ends the JVM with SIGKILL, as a crash would. Acknowledged writes are kept.
func (j *jvm) Kill() {
	_ = j.cmd.Process.Kill()
	<-j.done
}

// ended reports whether the JVM has ended.
func (j *jvm) ended() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// Pause stops the JVM without ending it, until Resume is called. It returns when all threads
// have stopped: the signal alone lets a thread continue until the kernel next runs it.
func (j *jvm) Pause() error {
	if err := j.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, j.PID(), nil, unix.WSTOPPED, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Resume lets a paused JVM continue.
func (j *jvm) Resume() error { return j.cmd.Process.Signal(syscall.SIGCONT) }
