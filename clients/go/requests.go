package rlock

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// request sends a command that belongs to no machine.
func (c *Client) request(ctx context.Context, lock string, words ...string) (any, error) {
	limited, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for {
		told := make(chan answer, 1)
		var reply any
		var link *link
		c.do(func() {
			link = c.linkFor(lock)
			link.send(words, c.response, func(received any, _ time.Duration) {
				reply = received
				told <- c.failure(received, lock, link, nil)
			})
		})
		failed := answer{kind: failedUnanswered}
		select {
		case failed = <-told:
		case <-limited.Done():
		}
		late := limited.Err() != nil
		switch {
		case !failed.failed():
			return reply, nil
		case c.ended.Err() != nil:
			return nil, closed()
		case late && (ctx.Err() != nil || failed.kind != failedPassing):
			var overdue error
			c.do(func() { overdue = link.overdue(ctx) })
			return nil, overdue
		case late || failed.kind != failedUnsent && failed.kind != failedPassing:
			return nil, failed.err
		}
		// It was surely not carried out.
		select {
		case <-time.After(5 * time.Millisecond):
		case <-limited.Done():
		}
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
	meant := refused.refusal(lock, from.server)
	code := refused.code()
	switch words := strings.Split(string(refused), " "); {
	case code == "READONLY" && !c.endpoint.cluster:
		failed := replica(from.server, refused)
		meant = answer{kind: failedPassing, err: failed}
		c.dropAll(failed)
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
