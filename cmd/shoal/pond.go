package main

import (
	"context"

	"shoal/internal/lab/pond"
)

type pondCmd struct{ pond.Cmd }

func (c *pondCmd) Run(ctx context.Context, s streams) error { return c.Cmd.Run(ctx, s.out, s.err) }
