import PushRecords

// What does not compile (with `-D MISUSE`), and its corrected twin: see MisuseTests.

/// A call is no alert, and its payload no other one's.
func alertAsCall() {
    #if MISUSE
        // error: requires that 'AlertPayload' conform to 'Collection'
        _ = PushNotification(AlertPayload(body: "Ada calls"), pushType: .voip)
    #else
        _ = PushNotification(VoIPPayload(["handle": "Ada"]))
    #endif
}

/// What is put into a text of the app needs the text.
func argumentsWithoutKey() {
    var payload = AlertPayload()
    #if MISUSE
        // error: missing argument for parameter #1 in call
        payload.localizedBody = LocalizedText(arguments: ["Shelly", "Rick"])
    #else
        payload.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", arguments: ["Shelly", "Rick"])
    #endif
}

/// "Using priority 10 is an error."
func backgroundAtOnce() {
    var notification = PushNotification(BackgroundPayload())
    #if MISUSE
        // error: (aka 'Optional<BackgroundPriority>') has no member 'immediate'
        notification.priority = .immediate
    #else
        notification.priority = .powerConsiderate
    #endif
}

/// What shows something is an alert.
func backgroundWithAlert() {
    var payload = BackgroundPayload()
    #if MISUSE
        // error: value of type 'BackgroundPayload' has no member 'title'
        payload.title = "News"
    #else
        payload.custom["title"] = "News"
    #endif
}

/// What sets a badge is an alert.
func backgroundWithBadge() {
    #if MISUSE
        var payload = BackgroundPayload()
        // error: value of type 'BackgroundPayload' has no member 'badge'
        payload.badge = 3
    #else
        var payload = AlertPayload()
        payload.badge = 3
    #endif
}

/// Nothing is shown, so nothing is merged.
func backgroundWithCollapseID() {
    #if MISUSE
        var notification = PushNotification(BackgroundPayload())
        // error: property 'collapseID' requires that 'BackgroundPayload' conform to 'CollapsiblePayload'
        notification.collapseID = "news"
    #else
        var notification = PushNotification(AlertPayload(body: "News"))
        notification.collapseID = "news"
    #endif
}

/// What interrupts nobody has no level of interruption.
func backgroundWithInterruptionLevel() {
    #if MISUSE
        var payload = BackgroundPayload()
        // error: value of type 'BackgroundPayload' has no member 'interruptionLevel'
        payload.interruptionLevel = .passive
    #else
        var payload = AlertPayload(body: "News")
        payload.interruptionLevel = .passive
    #endif
}

/// What plays something is an alert.
func backgroundWithSound() {
    #if MISUSE
        var payload = BackgroundPayload()
        // error: value of type 'BackgroundPayload' has no member 'sound'
        payload.sound = .standard
    #else
        var payload = AlertPayload()
        payload.sound = .standard
    #endif
}

/// Channels are for Live Activities.
func broadcastOfAnAlert() throws {
    let channel = "dHN0LXNyY2gtY2hubA=="
    #if MISUSE
        let notification = PushNotification(AlertPayload(body: "News"))
        // error: requires that 'AlertPayload' conform to 'BroadcastPayload'
        _ = try notification.payloadRecord(toChannel: channel)
    #else
        let update = LiveActivityUpdate(contentState: ["score": 1], timestamp: 1_790_000_000)
        _ = try PushNotification(update).payloadRecord(toChannel: channel)
    #endif
}

/// "You can't use broadcast push notifications to start a Live Activity."
func broadcastThatStarts() throws {
    let channel = "dHN0LXNyY2gtY2hubA=="
    let alert = LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off")
    #if MISUSE
        let start = LiveActivityStart(
            attributesType: "Match", attributes: [:], contentState: [:], alert: alert, timestamp: 1_790_000_000)
        // error: requires that 'LiveActivityStart' conform to 'BroadcastPayload'
        _ = try PushNotification(start).envelopeRecord(toChannel: channel)
    #else
        let start = LiveActivityStart(
            attributesType: "Match", attributes: [:], contentState: [:], alert: alert, updates: .channel(channel),
            timestamp: 1_790_000_000)
        _ = try PushNotification(start).payloadRecord(to: DeviceToken(bytes: [1]))
    #endif
}

/// A control asks for its state itself.
func controlsWithState() {
    #if MISUSE
        var payload = ControlsPayload()
        // error: value of type 'ControlsPayload' has no member 'custom'
        payload.custom["isOn"] = true
    #else
        let payload = ControlsPayload()
        _ = payload.pushType
    #endif
}

/// A Live Activity's sound is not critical.
func criticalLiveActivity() {
    var alert = LiveActivityAlert(title: "Goal!", body: "Ajax leads")
    #if MISUSE
        // error: type 'LiveActivityAlert.Sound?' has no member 'critical'
        alert.sound = .critical(volume: 1)
    #else
        alert.sound = .named("goal.caf")
    #endif
}

/// No header is not: never.
func expirationNever() {
    var notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: type 'PushExpiration' has no member 'never'
        notification.expiration = .never
    #else
        notification.expiration = .appleDefault
    #endif
}

/// An activity is updated, and not shown again.
func liveActivityWithCollapseID() {
    let update = LiveActivityUpdate(contentState: ["score": 1], timestamp: 1_790_000_000)
    var notification = PushNotification(update)
    #if MISUSE
        // error: property 'collapseID' requires that 'LiveActivityUpdate' conform to 'CollapsiblePayload'
        notification.collapseID = "match"
    #else
        notification.payload.relevanceScore = 100
    #endif
}

/// "This is the complete message."
func mDMWithAlert() {
    var payload = MDMPayload(pushMagic: "PushMagicValue")
    #if MISUSE
        // error: value of type 'MDMPayload' has no member 'body'
        payload.body = "News"
    #else
        payload.pushMagic = "OtherMagic"
    #endif
}

/// The payload says what a notification is.
func otherPushType() {
    var notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: cannot assign to property: 'pushType' is a get-only property
        notification.pushType = .background
    #else
        notification.payload.isContentAvailable = true
    #endif
}

/// "Set the APNs priority to 10 to request immediate delivery."
func speechThatWaits() {
    var notification = PushNotification(PushToTalkPayload(["activeSpeaker": "Ada"]))
    #if MISUSE
        // error: (aka 'Optional<ImmediatePriority>') has no member 'powerConsiderate'
        notification.priority = .powerConsiderate
    #else
        notification.priority = .immediate
    #endif
}

/// "Include an alert in the JSON payload."
func startWithoutAlert(attributes: PayloadValue, state: PayloadValue) {
    #if MISUSE
        // error: missing argument for parameter 'alert'
        _ = LiveActivityStart(attributesType: "A", attributes: attributes, contentState: state, timestamp: 1)
    #else
        let alert = LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off")
        _ = LiveActivityStart(
            attributesType: "A", attributes: attributes, contentState: state, alert: alert, timestamp: 1)
    #endif
}

/// A number from elsewhere says its unit.
func timeInMilliseconds() {
    let nowMs: Int64 = 1_790_000_000_000
    #if MISUSE
        // error: cannot convert value of type 'Int64' to expected argument type 'UnixTime'
        _ = LiveActivityUpdate(contentState: [:], timestamp: nowMs)
    #else
        _ = LiveActivityUpdate(contentState: [:], timestamp: UnixTime(secondsSinceEpoch: nowMs / 1_000))
    #endif
}

/// A token is checked before it is used.
func tokenAsText() throws {
    let notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: cannot convert value of type 'String' to expected argument type 'DeviceToken'
        _ = try notification.payloadRecord(to: "0a0b")
    #else
        _ = try notification.payloadRecord(to: DeviceToken(hex: "0a0b"))
    #endif
}

/// Whether a suffix is still missing is said.
func topicAsText() {
    var notification = PushNotification(VoIPPayload(["handle": "Ada"]))
    #if MISUSE
        // error: cannot assign value of type 'String' to type 'PushTopic'
        notification.topic = "com.example.shop"
    #else
        notification.topic = .bundleID("com.example.shop")
    #endif
}

/// Only what ends is dismissed.
func updateWithDismissal() {
    #if MISUSE
        var update = LiveActivityUpdate(contentState: [:], timestamp: 1_790_000_000)
        // error: value of type 'LiveActivityUpdate' has no member 'dismissal'
        update.dismissal = .immediately
    #else
        var end = LiveActivityEnd(contentState: [:], timestamp: 1_790_000_000)
        end.dismissal = .immediately
    #endif
}

/// The newest update is told by its time.
func updateWithoutTimestamp() {
    #if MISUSE
        // error: missing argument for parameter 'timestamp' in call
        _ = LiveActivityUpdate(contentState: [:])
    #else
        _ = LiveActivityUpdate(contentState: [:], timestamp: 1_790_000_000)
    #endif
}

/// "Set the value for the apns-priority header field to 5 or 10."
func updateWithoutWaking() {
    var notification = PushNotification(LiveActivityUpdate(contentState: [:], timestamp: 1_790_000_000))
    #if MISUSE
        // error: (aka 'Optional<WakingPriority>') has no member 'withoutWaking'
        notification.priority = .withoutWaking
    #else
        notification.priority = .powerConsiderate
    #endif
}

/// A widget is told that something changed, and nothing else.
func widgetsWithAlert() {
    #if MISUSE
        // error: argument passed to call that takes no arguments
        _ = WidgetsPayload(title: "News")
    #else
        _ = WidgetsPayload()
    #endif
}
