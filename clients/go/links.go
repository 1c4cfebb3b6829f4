package rlock

import (
	"errors"
	"strings"
	"time"
)

// The links of a client: one for commands, or one for each node of a cluster, and one for messages. All this is called with the
// client's mutex.

// hearing is whether messages arrive.
type hearing int

const (
	deaf hearing = iota
	subscribing
	subscribed // as the server of the subscription says
	hears      // and as the server says that makes the grants
)

func (c *Client) open(address, pulse string) *link {
	l := &link{
		address: address, client: c, pulse: pulse, woken: make(chan struct{}, 1),
		trouble: unreachable(errors.New("no connection yet")),
	}
	c.running.Add(1)
	go l.keep(c.ended)
	return l
}

// link is the one for commands to this address.
func (c *Client) link(address string) *link {
	if l := c.links[address]; l != nil {
		return l
	}
	pulse := "PING"
	if c.endpoint.follows() {
		// A server may be demoted without a word to its clients.
		pulse = "ROLE"
	}
	l := c.open(address, pulse)
	c.links[address] = l
	l.came = func() { c.commandsCame(l) }
	l.went = func(wasUp bool, err *Error) { c.commandsWent(l, wasUp, err) }
	l.lives = func(reply any, sentAt time.Duration) { c.commandsLive(l, reply, sentAt) }
	return l
}

func (c *Client) linkFor(lock string) *link {
	if c.endpoint.cluster {
		if address, known := c.slots[slotOf(lock)]; known {
			return c.link(address)
		}
	}
	return c.link(c.endpoint.seeds[0])
}

func (c *Client) commandsCame(l *link) {
	// Before anything else, held locks are renewed, and tied to this connection.
	c.each(func(a *acquisition) bool { return !a.machine.waits() && c.linkFor(a.order.lock) == l }, (*acquisition).linkUp)
	c.introduce(l)
	offer(c.settled, nil)
	c.reconnected()
	if c.hearing >= subscribed {
		c.count()
	}
}

func (c *Client) commandsWent(l *link, wasUp bool, err *Error) {
	if c.failures++; c.failures >= len(c.endpoint.seeds) {
		offer(c.settled, error(err))
	}
	c.disconnected(wasUp, err)
	mine := func(a *acquisition) bool { return a.link == l }
	c.each(mine, (*acquisition).linkDown)
	c.refuse(mine, err)
	if !c.endpoint.cluster {
		return
	}
	// The slots of a node that is gone are asked for at another one.
	for slot, address := range c.slots {
		if address == l.address {
			delete(c.slots, slot)
		}
	}
	if seeds := c.endpoint.seeds; seeds[0] == l.address {
		c.endpoint.seeds = append(seeds[1:], seeds[0])
		c.link(c.endpoint.seeds[0])
	}
	c.each(mine, func(a *acquisition) {
		if c.linkFor(a.order.lock).up() {
			a.linkUp()
		}
	})
}

func (c *Client) commandsLive(l *link, reply any, sentAt time.Duration) {
	if _, failed := reply.(undelivered); failed {
		return
	}
	if demoted(reply) {
		c.dropAll(errors.New("the server is no longer a primary"))
		return
	}
	c.each(func(a *acquisition) bool { return a.order.grace > 0 && a.tied == l }, func(a *acquisition) {
		a.feed(func() { a.machine.alive(sentAt) })
	})
}

// listen subscribes, before the first wait.
func (c *Client) listen() {
	if c.messages != nil {
		if c.hearing == deaf && c.messages.up() {
			c.subscribe()
		}
		return
	}
	l := c.open(c.endpoint.seeds[0], "PING")
	c.messages = l
	l.came = func() {
		c.introduce(l)
		c.subscribe()
		c.reconnected()
	}
	l.went = func(wasUp bool, err *Error) {
		c.hearing = deaf
		c.disconnected(wasUp, err)
		c.refuse((*acquisition).waits, err)
	}
	l.message = func(text string) {
		told, known := readMessage(text)
		if a := c.acquisitions[told.claim]; known && a != nil {
			a.feed(func() { a.machine.message(told.word, told.token) })
		}
	}
	l.lives = ignore
}

func (c *Client) subscribe() {
	c.hearing = subscribing
	c.messages.send([]string{"SUBSCRIBE", c.channel}, c.response, func(reply any, _ time.Duration) {
		switch refused := reply.(type) {
		case undelivered:
		case serverError:
			c.unheard(refused)
		default:
			c.count()
		}
	})
}

// count asks the server of the commands, which makes the grants, whether it knows the subscription.
func (c *Client) count() {
	c.hearing = subscribed
	c.counts++
	number := c.counts
	c.link(c.endpoint.seeds[0]).send([]string{"PUBSUB", "NUMSUB", c.channel}, c.response, func(reply any, _ time.Duration) {
		if number != c.counts || c.hearing != subscribed {
			return
		}
		switch reply := reply.(type) {
		case undelivered:
		case serverError:
			c.unheard(reply)
		case []any:
			if len(reply) != 2 || reply[1] == int64(0) {
				c.messages.drop(errors.New("the subscription is on another server"))
				return
			}
			c.hearing = hears
			c.each((*acquisition).waits, (*acquisition).linkUp)
		}
	})
}

// unheard: this user gets no messages, so waits end. The next one subscribes again, since the rules may have changed.
func (c *Client) unheard(refused serverError) {
	told := refused.refusal("", false)
	if told.kind == failedPassing {
		c.messages.drop(told.err) // the next connection subscribes again
		return
	}
	c.hearing = deaf
	c.each((*acquisition).waits, func(a *acquisition) { a.feed(func() { a.machine.cancel(told.err) }) })
}

// refuse: the server does not let this user in.
func (c *Client) refuse(which func(*acquisition) bool, err *Error) {
	if errors.Is(err, ErrPermission) {
		c.each(which, func(a *acquisition) { a.feed(func() { a.machine.cancel(err) }) })
	}
}

func (c *Client) introduce(l *link) {
	// A user without this permission, or an older server, leaves the connection without a name.
	for _, words := range [][]string{{"SETNAME", c.called}, {"SETINFO", "LIB-NAME", "rlock-client"}, {"SETINFO", "LIB-VER", Version}} {
		l.send(append([]string{"CLIENT"}, words...), c.response, ignore)
	}
}

func ignore(any, time.Duration) {}

func (c *Client) disconnected(wasUp bool, err *Error) {
	if wasUp && c.lostAt == 0 && c.ended.Err() == nil {
		c.lostAt = now()
		c.tell(Event{Kind: Disconnected, Err: err})
	}
}

func (c *Client) reconnected() {
	if c.lostAt == 0 || c.messages != nil && !c.messages.up() {
		return
	}
	for _, l := range c.links {
		if !l.up() {
			return
		}
	}
	c.tell(Event{Kind: Reconnected, Took: now() - c.lostAt})
	c.lostAt = 0
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
	return int(crc % 16384)
}
