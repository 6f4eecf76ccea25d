package draft

import (
	"fmt"
	"net"
	"net/netip"
)

// Network returns the network of an address and a mask such as 255.255.0.0. It returns
// false if the bits of the mask are not ones followed by zeros, because rules cannot
// contain such a network.
func Network(address, mask string) (netip.Prefix, bool) {
	m, err := netip.ParseAddr(mask)
	if err != nil {
		return netip.Prefix{}, false
	}
	ones, size := net.IPMask(m.AsSlice()).Size()
	n, err := netip.ParsePrefix(fmt.Sprintf("%s/%d", address, ones))
	return n.Masked(), err == nil && n.Addr().BitLen() == size
}
