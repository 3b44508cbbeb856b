package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/netutil"

	"shoal/manager/board"
)

// boardFlags are the flags of the public board.
type boardFlags struct {
	Board    string `help:"Address of a public board of volunteers and teams who want to be on it, with badges; empty: none." default:"" placeholder:"ADDR"`
	BoardURL string `help:"URL under which the public finds the board: volunteers are told it." placeholder:"URL"`
}

func (c *boardFlags) use(cfg *stationConfig) error {
	if c.BoardURL != "" {
		if u, err := url.Parse(c.BoardURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("--board-url %q: want a URL such as https://board.example.org/", c.BoardURL)
		}
		if c.Board == "" {
			return fmt.Errorf("--board-url names a board that is not served: say where with --board ADDR")
		}
	}
	cfg.board, cfg.boardURL = c.Board, c.BoardURL
	return nil
}

// maxBoardConns bounds the connections to the board: strangers must not use up what the network needs.
const maxBoardConns = 256

func (st *station) listenBoard() error {
	if st.cfg.board == "" {
		return nil
	}
	at, err := net.Listen("tcp", st.cfg.board)
	if err != nil {
		return fmt.Errorf("the public board cannot be served at %s: %w; choose another address with --board", st.cfg.board, err)
	}
	st.board = at
	st.undo = append(st.undo, func() error { return ignoreClosed(at.Close()) })
	return nil
}

func (st *station) serveBoard(ctx context.Context) error {
	h, err := board.Handler(board.Config{Source: st.archive, Network: st.keys.Network.String(), Name: st.cfg.name, Contact: st.cfg.manager.Contact, Now: st.node.Now, Log: st.cfg.log})
	if err != nil {
		return err
	}
	return st.serveHTTP(ctx, netutil.LimitListener(st.board, maxBoardConns), &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10})
}
