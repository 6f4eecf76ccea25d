package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// versus measures this source tree, the revision against and slapd by turns, and prints the
// medians of the server's CPU time an operation and their ratios.
func versus() error {
	dir, err := os.MkdirTemp("", "versus")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	old := filepath.Join(dir, "tree")
	if out, err := exec.Command("git", "worktree", "add", "--detach", old, *against).CombinedOutput(); err != nil {
		return fmt.Errorf("checking out %s: %w\n%s", *against, err, out)
	}
	defer func() { _ = exec.Command("git", "worktree", "remove", "--force", old).Run() }()
	before := of(old, "peer-ldapd")
	before.name = *against
	peers := append([]peer{of(".", "peer-ldapd"), before}, slapd()...)
	servers, stop, err := startServers(peers, dir)
	defer stop()
	if err != nil {
		return err
	}
	fmt.Printf("%s; medians of %d. CPU of the server an operation, in us, and the ratio of this tree's.\n\n| workload | this tree", machine(), *rounds)
	for _, p := range peers[1:] {
		fmt.Printf(" | %s | :", p.name)
	}
	fmt.Print(" |\n|---|---")
	for range peers[1:] {
		fmt.Print("|---|---")
	}
	fmt.Println("|")
	for _, w := range workloads {
		log.Print(w.name)
		cpu := make([][]time.Duration, len(servers))
		for range *rounds {
			for i, s := range servers {
				f, err := s.measure(w)
				if err != nil {
					return err
				}
				cpu[i] = append(cpu[i], f.cpu)
			}
		}
		us := make([]float64, len(servers))
		for i := range cpu {
			slices.Sort(cpu[i])
			us[i] = float64(cpu[i][len(cpu[i])/2]) / 1e3
		}
		fmt.Printf("| %s | %s", w.name, short(us[0]))
		for _, n := range us[1:] {
			fmt.Printf(" | %s | %.2f", short(n), us[0]/n)
		}
		fmt.Println(" |")
	}
	return nil
}
