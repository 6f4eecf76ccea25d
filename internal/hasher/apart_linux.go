package hasher

import (
	"os/exec"
	"syscall"
)

// niceness is how much others come first: beside work that would take all CPUs,
// hashes get about a tenth of one. Less, and a busy server would let nobody in.
const niceness = 10

// apart has a command run in a process group of its own: a terminal's Ctrl-C is
// not for it, and its threads can be told by the group.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// yield makes all threads of the process nicer, which setpriority(2) does by
// process group only.
func yield() error { return syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness) }

// Self is the path of the program that runs, also if its file has been replaced
// by a newer one.
func Self() (string, error) { return "/proc/self/exe", nil }
