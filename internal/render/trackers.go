package render

import "strings"

// trackers lists hosts that count visitors or show advertisements; names below them count, too. Pages have the same
// content without them.
var trackers = func() map[string]bool {
	const hosts = `google-analytics.com googletagmanager.com googletagservices.com googlesyndication.com googleadservices.com doubleclick.net
		adservice.google.com connect.facebook.net facebook.com hotjar.com hotjar.io segment.com segment.io mixpanel.com amplitude.com nr-data.net
		newrelic.com bugsnag.com clarity.ms matomo.cloud plausible.io scorecardresearch.com quantserve.com quantcount.com criteo.com criteo.net
		taboola.com outbrain.com adnxs.com rubiconproject.com pubmatic.com openx.net casalemedia.com adsrvr.org mc.yandex.ru hm.baidu.com
		hs-analytics.net hs-scripts.com licdn.com ads.linkedin.com analytics.tiktok.com ads-twitter.com sc-static.net ct.pinterest.com fullstory.com
		mouseflow.com crazyegg.com chartbeat.com chartbeat.net adroll.com amazon-adsystem.com moatads.com demdex.net omtrdc.net krxd.net bluekai.com
		statcounter.com histats.com heapanalytics.com logrocket.io smartlook.com luckyorange.com cloudflareinsights.com bat.bing.com`
	all := map[string]bool{}
	for host := range strings.FieldsSeq(hosts) {
		all[host] = true
	}
	return all
}()

// tracks reports whether a host is a tracker or below one.
func tracks(host string) bool {
	for host != "" {
		if trackers[host] {
			return true
		}
		_, host, _ = strings.Cut(host, ".")
	}
	return false
}
