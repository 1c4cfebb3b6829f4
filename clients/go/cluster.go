package rlock

import (
	"net"
	"strconv"
	"strings"
	"time"
)

// A cluster: which of its nodes has which slot. All this is called with the client's mutex.

const (
	slots = 16384
	// A node without slots is forgotten when it was out of reach for so long.
	longestAbsence = time.Minute
	// How often a command follows its slot at once, where two nodes disagree.
	settles = 100 * time.Millisecond
	// How often a node is asked for the slots of all, at most.
	surveyPause = time.Second
)

// linkFor is the link to the node that has a lock, as far as it is known; else another one, which says where it is.
func (c *Client) linkFor(lock string) *link {
	if address, known := c.slots[slotOf(lock)]; known {
		return c.link(address)
	}
	for _, l := range c.links {
		if l.up() {
			return l
		}
	}
	return c.link(c.endpoint.seeds[0])
}

// survey asks a node which of them have which slots. Without the right to ask, refusals tell where a slot is.
func (c *Client) survey(l *link) {
	if c.blind || c.surveyed > 0 && now()-c.surveyed < surveyPause {
		return
	}
	c.surveyed = now()
	l.send([]string{"CLUSTER", "SLOTS"}, c.response, func(reply any, _ time.Duration) {
		c.blind = denies(reply)
		if known := readSlots(reply, l.address); len(known) > 0 {
			c.slots = known
		}
	})
}

// readSlots reads the reply of the node at this address.
func readSlots(reply any, asked string) map[int]string {
	known := map[int]string{}
	ranges, _ := reply.([]any)
	for _, each := range ranges {
		words, _ := each.([]any)
		if len(words) < 3 {
			continue
		}
		first, _ := words[0].(int64)
		last, _ := words[1].(int64)
		primary, _ := words[2].([]any)
		if len(primary) < 2 {
			continue
		}
		host, _ := primary[0].(string)
		port, _ := primary[1].(int64)
		address := beside(asked, net.JoinHostPort(host, strconv.FormatInt(port, 10)))
		for slot := max(0, first); slot <= min(last, slots-1); slot++ {
			known[int(slot)] = address
		}
	}
	return known
}

// beside is an address that a node names. Without a host, it is at the node's own.
func beside(node, address string) string {
	host, port, err := net.SplitHostPort(address)
	if at := strings.LastIndexByte(address, ':'); err != nil && at >= 0 {
		host, port = address[:at], address[at+1:] // IPv6, as MOVED writes it
	}
	if host == "" || host == "?" {
		host, _, _ = net.SplitHostPort(node)
	}
	return net.JoinHostPort(host, port)
}

// redirected is whether a refusal says where a lock is, and if only for one command, at which node.
func (c *Client) redirected(refused serverError, lock string, from *link) (moved bool, once *link) {
	words := strings.Fields(string(refused))
	if code := refused.code(); !c.endpoint.cluster || len(words) < 3 || code != "MOVED" && code != "ASK" {
		return false, nil
	}
	address := beside(from.address, words[2])
	if words[0] == "ASK" {
		return true, c.link(address)
	}
	// Other slots are likely to have moved as well.
	c.survey(from)
	c.slots[slotOf(lock)] = address
	return true, nil
}

// leaveNode: the slots of a node that is gone are asked for at another one.
func (c *Client) leaveNode(l *link) {
	for slot, address := range c.slots {
		if address == l.address {
			delete(c.slots, slot)
		}
	}
	if seeds := c.endpoint.seeds; seeds[0] == l.address {
		c.endpoint.seeds = append(seeds[1:], seeds[0])
		c.link(c.endpoint.seeds[0])
	}
	// A hold that was confirmed there, while its slot was on the way, is tied to no connection. Its release, which needs none, is not
	// sent a second time.
	c.each(func(a *acquisition) bool { return a.tied == l && a.link != l && a.machine.phase != phaseReleasing }, func(a *acquisition) {
		a.linkDown()
		if a.link.up() {
			a.linkUp()
		}
	})
	c.at(l, (*acquisition).follow)
	used := l.address == c.endpoint.seeds[0]
	c.each(func(a *acquisition) bool { return a.link == l || a.tied == l }, func(*acquisition) { used = true })
	if now()-l.downAt > longestAbsence && !used {
		delete(c.links, l.address)
		l.end()
		c.reconnected()
	}
}

// slotFor is a slot of the node for the channel of a wait: one that other locks do not leave with, if it is known.
func (c *Client) slotFor(l *link, lock string) int {
	own := slotOf(lock)
	if !l.wanders && c.slots[own] == l.address {
		for slot := range slots {
			if c.slots[slot] == l.address {
				return slot
			}
		}
	}
	return own
}

// tagOf is a hash tag that has this slot.
func tagOf(slot int) int {
	tag := 0
	for slotOf(strconv.Itoa(tag)) != slot {
		tag++
	}
	return tag
}

// slotOf is the slot of a key in a cluster: CRC16 (XMODEM) of its hash tag, or of all of it.
func slotOf(key string) int {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
	}
	return int(crc % slots)
}
