package directory

import "github.com/seed-4dac0d86/ldapd/partition"

// PartitionOf gives tests the partition below.
func PartitionOf(d *Directory) *partition.Partition { return d.part }
