package hasher

import (
	"os/exec"
	"syscall"
)

// niceness is the nice value of the process. If other work would use all CPUs, hashes get
// about a tenth of one CPU. With a smaller share, nobody could log in to a busy server.
const niceness = 10

// apart makes cmd run in a new process group. A terminal's Ctrl-C then does not reach the
// process, and setpriority(2) can address the threads of the process by the group.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// yield raises the niceness of all threads of the process. setpriority(2) can address
// all of them only by their process group.
func yield() error { return syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness) }

// Self returns the path of the running program, even if a newer file has replaced the
// program's file.
func Self() (string, error) { return "/proc/self/exe", nil }
