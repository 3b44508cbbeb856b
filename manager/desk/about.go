package desk

// about says in plain words what each strategy does, and when to choose it. docs/operator.md has the same table.
var about = map[string]string{
	"fixed":        "Each group keeps the recrawl interval that it begins with, whatever the swarm can do. Choose it to compare others with, or where intervals must not move.",
	"iir":          "Now and then each group's interval is set to the time between updates that the group really had, a little shorter. Choose it where groups differ in how well they can be crawled.",
	"icr":          "Now and then all intervals are set so that together they use what the swarm has shown it can do; faster groups keep shorter ones. The default, and a safe choice while little is known.",
	"price":        "Each crawl goes where it buys the most freshness for the time it takes, with no count of crawlers. Choose it when crawlers are scarce and change rates have been learnt.",
	"uniform":      "All channels are crawled equally often, as often as the swarm can. Choose it where every channel must be visited alike, or to compare others with.",
	"proportional": "Channels are crawled as often as they change, in proportion. Choose it to compare others with: it spends most on channels that cannot be kept fresh.",
	"lambda":       "Crawls go where missed changes weigh most, and the longer a copy may have been stale the more (LambdaCrawl). Choose it where a stale copy gets worse with time, and no channel may be left behind.",
	"optimal":      "Plans the best frequency of every channel once a day for the capacity that peers offer and updates have shown, and runs it as a timetable. Choose it for a swarm that stays about the same.",
	"cycle":        "Plans cycles of periods, each with a share of known channels and of new ones. Choose it where new channels keep coming, and neither side must starve.",
	"adaptive":     "Each channel by itself: crawled sooner when it was found changed, later when not, as Nutch and StormCrawler do. Choose it to compare with those.",
}

// About says what a strategy does, and when to choose it.
func About(strategy string) string { return about[strategy] }
