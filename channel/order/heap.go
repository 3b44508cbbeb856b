package order

import "slices"

// There are two kinds of binary heap: one of the pages of a site, one of the sites that are ready. Both are written
// out by hand, because comparing and swapping also update pos, and a crawl of millions of links spends its time here.

// pageBefore reports whether page a of a site is fetched before page b.
func (f *Frontier) pageBefore(a, b Page) bool {
	if f.key[a] != f.key[b] {
		return f.key[a] > f.key[b]
	}
	return f.seq[a] < f.seq[b]
}

func (f *Frontier) pushPage(p Page) {
	s := f.site[p]
	st := &f.sites[s]
	f.pos[p] = uint32(len(st.pages))
	st.pages = append(st.pages, p)
	f.upPage(st.pages, len(st.pages)-1)
	if f.larger || f.pos[p] == 0 {
		f.fixSite(s)
	}
}

// raisePage puts a page right whose priority has grown.
func (f *Frontier) raisePage(p Page) {
	s := f.site[p]
	f.upPage(f.sites[s].pages, int(f.pos[p]))
	if f.pos[p] == 0 {
		f.fixSite(s)
	}
}

// popPage takes the first page of a site out. The heap of sites is put right by the caller.
func (f *Frontier) popPage(s Site) Page {
	st := &f.sites[s]
	h := st.pages
	p := h[0]
	last := len(h) - 1
	h[0] = h[last]
	f.pos[h[0]] = 0
	st.pages = h[:last]
	if last > 0 {
		f.downPage(st.pages, 0)
	} else if cap(h) > 64 {
		st.pages = nil
	}
	return p
}

func (f *Frontier) upPage(h []Page, i int) {
	p := h[i]
	for i > 0 {
		up := (i - 1) / 2
		if !f.pageBefore(p, h[up]) {
			break
		}
		h[i] = h[up]
		f.pos[h[i]] = uint32(i)
		i = up
	}
	h[i] = p
	f.pos[p] = uint32(i)
}

func (f *Frontier) downPage(h []Page, i int) {
	p := h[i]
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && f.pageBefore(h[c+1], h[c]) {
			c++
		}
		if !f.pageBefore(h[c], p) {
			break
		}
		h[i] = h[c]
		f.pos[h[i]] = uint32(i)
		i = c
	}
	h[i] = p
	f.pos[p] = uint32(i)
}

// siteBefore reports whether site a is served before site b: by pending pages if the ordering asks for it, else by
// their first page.
func (f *Frontier) siteBefore(a, b Site) bool {
	sa, sb := &f.sites[a], &f.sites[b]
	if f.larger && sa.counted != sb.counted {
		return sa.counted > sb.counted
	}
	return f.pageBefore(sa.pages[0], sb.pages[0])
}

// fixSite puts a site where it belongs after its pages or its readiness changed.
func (f *Frontier) fixSite(s Site) {
	st := &f.sites[s]
	if st.busy || len(st.pages) == 0 {
		return // it is not in the heap: Next took it out, or it was never put in
	}
	if st.pos < 0 {
		st.pos = int32(len(f.heap))
		f.heap = append(f.heap, s)
	}
	if !f.downSite(int(st.pos)) {
		f.upSite(int(st.pos))
	}
}

func (f *Frontier) removeSite(s Site) {
	i := int(f.sites[s].pos)
	if i < 0 {
		return
	}
	last := len(f.heap) - 1
	moved := f.heap[last]
	f.heap = f.heap[:last]
	f.sites[s].pos = -1
	if i < last {
		f.heap[i] = moved
		f.sites[moved].pos = int32(i)
		if !f.downSite(i) {
			f.upSite(i)
		}
	}
}

func (f *Frontier) upSite(i int) {
	s := f.heap[i]
	for i > 0 {
		up := (i - 1) / 2
		if !f.siteBefore(s, f.heap[up]) {
			break
		}
		f.heap[i] = f.heap[up]
		f.sites[f.heap[i]].pos = int32(i)
		i = up
	}
	f.heap[i] = s
	f.sites[s].pos = int32(i)
}

func (f *Frontier) downSite(i int) (moved bool) {
	s := f.heap[i]
	for {
		c := 2*i + 1
		if c >= len(f.heap) {
			break
		}
		if c+1 < len(f.heap) && f.siteBefore(f.heap[c+1], f.heap[c]) {
			c++
		}
		if !f.siteBefore(f.heap[c], s) {
			break
		}
		f.heap[i] = f.heap[c]
		f.sites[f.heap[i]].pos = int32(i)
		i, moved = c, true
	}
	f.heap[i] = s
	f.sites[s].pos = int32(i)
	return moved
}

// rebuild sorts everything anew after all priorities changed; a sorted list is a heap.
func (f *Frontier) rebuild() {
	for i := range f.sites {
		h := f.sites[i].pages
		slices.SortFunc(h, func(a, b Page) int {
			if f.pageBefore(a, b) {
				return -1
			}
			return 1
		})
		for j, p := range h {
			f.pos[p] = uint32(j)
		}
	}
	slices.SortFunc(f.heap, func(a, b Site) int {
		if f.siteBefore(a, b) {
			return -1
		}
		return 1
	})
	for i, s := range f.heap {
		f.sites[s].pos = int32(i)
	}
}
