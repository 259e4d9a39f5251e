package redlock

// Connected returns how many masters the client is connected to.
func (c *Client) Connected() int { return c.engine.N() - len(c.engine.Down()) }
