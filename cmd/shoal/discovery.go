package main

import "shoal/manager"

// discovery is what becomes of other sites' URLs, for every command that runs a manager.
type discovery struct {
	Discover     string `help:"What becomes of other sites' URLs that crawls find: off, listed (noted), host (further hosts of listed sites), any." enum:"off,listed,host,any" default:"listed" placeholder:"WHAT"`
	DiscoverMost int    `help:"Channels that discovery adds at most, ever." default:"10000" placeholder:"N"`
}

func (d discovery) validate() error { return atLeast("--discover-most", d.DiscoverMost, 0) }

func (d discovery) use(c *manager.Config) {
	c.Discover, c.DiscoverMost = manager.Discover(d.Discover), d.DiscoverMost
}
