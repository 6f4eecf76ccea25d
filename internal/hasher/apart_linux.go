package hasher

import (
	"os/exec"
	"syscall"
)

// niceness is the priority given up to others: beside work that would use all CPUs,
// hashes get about a tenth of one. With less, nobody could log in to a busy server.
const niceness = 10

// apart makes a command run in a process group of its own: a terminal's Ctrl-C does not
// reach it, and its threads can be addressed by the group.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// yield raises the niceness of all threads of the process, which setpriority(2) can
// only do by process group.
func yield() error { return syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness) }

// Self returns the path of the running program, even if its file has been replaced by a
// newer one.
func Self() (string, error) { return "/proc/self/exe", nil }
