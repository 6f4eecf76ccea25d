package cache

import "github.com/seed-4dac0d86/ldapd/partition/bounded"

// Stats are the statistics of a part of the cache since the cache was created.
type Stats struct {
	Name         string
	Hits, Misses uint64
	Bytes        uint64 // weight of the content of this part
}

// Stats returns the statistics of the parts of the cache except RangeSteps.
func (c *Cache) Stats() []Stats {
	hits, misses, size := c.Columns.Counts()
	return []Stats{
		of("entries", c.Entries),
		of("children", c.Children),
		c.Postings.stats(),
		of("names", c.Names),
		of("referrers", c.Referrers),
		{"columns", hits, misses, size},
	}
}

func of[K comparable, V any](name string, c bounded.Cache[K, V]) Stats {
	hits, misses := c.Counts()
	return Stats{name, hits, misses, c.Weight()}
}
