package rlock

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// request sends a command that belongs to no machine.
func (c *Client) request(ctx context.Context, lock string, words ...string) (any, error) {
	for by := now() + c.response; ; {
		told := make(chan answer, 1)
		var reply any
		c.do(func() {
			link := c.linkFor(lock)
			link.send(words, c.response, func(received any, _ time.Duration) {
				reply = received
				told <- c.failure(received, lock, link, nil)
			})
		})
		select {
		case failed := <-told:
			switch {
			case !failed.failed():
				return reply, nil
			case c.ended.Err() != nil:
				return nil, closed()
			case failed.kind != failedUnsent && failed.kind != failedPassing || now() >= by:
				return nil, failed.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		// It was surely not carried out.
		time.Sleep(5 * time.Millisecond)
	}
}

// The caller of the following holds the mutex.

// failure is what became of a command that did not get the reply it was for, and the reader of a lock's reply otherwise.
func (c *Client) failure(reply any, lock string, from *link, a *acquisition) answer {
	switch reply := reply.(type) {
	case undelivered:
		return answer{kind: reply.kind, err: reply.err}
	case serverError:
		return c.refusal(reply, lock, from, a)
	}
	return answer{}
}

// refusal is what the server's refusal means, and where a cluster sends the next command.
func (c *Client) refusal(refused serverError, lock string, from *link, a *acquisition) answer {
	meant := refused.refusal(lock, c.endpoint.follows())
	code := refused.code()
	switch words := strings.Split(string(refused), " "); {
	case code == "READONLY" && c.endpoint.follows():
		c.dropAll(refused)
	case code != "MOVED" && code != "ASK" || len(words) < 3:
	case !c.endpoint.cluster:
		meant.err = unsupported(fmt.Sprintf("this server is one of a cluster (%s); use ConnectLike with a redis.ClusterClient", shown(string(refused))))
	default:
		address := words[2]
		if strings.HasPrefix(address, ":") {
			// The same host.
			address = from.address[:max(0, strings.LastIndex(from.address, ":"))] + address
		}
		meant.kind = failedPassing
		if code == "MOVED" {
			c.slots[slotOf(lock)] = address
		} else if a != nil {
			a.asking = c.link(address)
		}
	}
	return meant
}

// dropAll: the server is no longer a primary. The next connections find the one that is.
func (c *Client) dropAll(why error) {
	for _, link := range c.links {
		link.drop(why)
	}
	if c.messages != nil {
		c.messages.drop(why)
	}
}
