import PushRecords

// Code that must not compile (with `-D MISUSE`), each with a corrected twin. MisuseTests compile this file.

/// A background notification has no alert, badge, sound or collapse id. "Using priority 10 is an error."
func background() {
    #if MISUSE
        var notification = PushNotification(BackgroundPayload())
        // error: (aka 'Optional<BackgroundPriority>') has no member 'immediate'
        notification.priority = .immediate
        // error: property 'collapseID' requires that 'BackgroundPayload' conform to 'CollapsiblePayload'
        notification.collapseID = "news"
        // error: value of type 'BackgroundPayload' has no member 'title'
        notification.payload.title = "News"
        // error: value of type 'BackgroundPayload' has no member 'badge'
        notification.payload.badge = 3
        // error: value of type 'BackgroundPayload' has no member 'interruptionLevel'
        notification.payload.interruptionLevel = .passive
        // error: value of type 'BackgroundPayload' has no member 'sound'
        notification.payload.sound = .standard
    #else
        var notification = PushNotification(BackgroundPayload(custom: ["title": "News"]))
        notification.priority = .powerConsiderate
        var alert = PushNotification(AlertPayload(title: "News", body: "Read all about it"))
        alert.collapseID = "news"
        alert.payload.badge = 3
        alert.payload.interruptionLevel = .passive
        alert.payload.sound = .standard
    #endif
}

/// Localized arguments need a key, an expiration cannot be `never`, and the payload determines the push type.
func alert() {
    var notification = PushNotification(AlertPayload(body: "News"))
    #if MISUSE
        // error: missing argument for parameter #1 in call
        notification.payload.localizedBody = LocalizedText(arguments: ["Shelly", "Rick"])
        // error: type 'PushExpiration' has no member 'never'
        notification.expiration = .never
        // error: cannot assign to property: 'pushType' is a get-only property
        notification.pushType = .background
    #else
        notification.payload.localizedBody = LocalizedText("GAME_PLAY_REQUEST_FORMAT", arguments: ["Shelly", "Rick"])
        notification.expiration = .appleDefault
        notification.payload.isContentAvailable = true
    #endif
}

/// Channels are for Live Activities. "You can't use broadcast push notifications to start a Live Activity."
func broadcast() throws {
    let channel = "dHN0LXNyY2gtY2hubA=="
    let alert = LiveActivityAlert(title: "Ajax – PSV", body: "Kick-off")
    let start = LiveActivityStart(
        attributesType: "Match", attributes: [:], contentState: [:], alert: alert, updates: .channel(channel),
        timestamp: 1_790_000_000)
    #if MISUSE
        // error: requires that 'AlertPayload' conform to 'BroadcastPayload'
        _ = try PushNotification(AlertPayload(body: "News")).payloadRecord(toChannel: channel)
        // error: requires that 'LiveActivityStart' conform to 'BroadcastPayload'
        _ = try PushNotification(start).envelopeRecord(toChannel: channel)
    #else
        let update = LiveActivityUpdate(contentState: ["score": 1], timestamp: 1_790_000_000)
        _ = try PushNotification(update).payloadRecord(toChannel: channel)
        _ = try PushNotification(start).payloadRecord(to: DeviceToken(bytes: [1]))
    #endif
}

/// A start has an alert, an update has a time in seconds and wakes the device, and only an end has a dismissal.
func liveActivity(attributes: PayloadValue, state: PayloadValue, nowMs: Int64) {
    var alert = LiveActivityAlert(title: "Goal!", body: "Ajax leads")
    var notification = PushNotification(LiveActivityUpdate(contentState: state, timestamp: 1_790_000_000))
    #if MISUSE
        // error: type 'LiveActivityAlert.Sound?' has no member 'critical'
        alert.sound = .critical(volume: 1)
        // error: property 'collapseID' requires that 'LiveActivityUpdate' conform to 'CollapsiblePayload'
        notification.collapseID = "match"
        // error: (aka 'Optional<WakingPriority>') has no member 'withoutWaking'
        notification.priority = .withoutWaking
        // error: value of type 'LiveActivityUpdate' has no member 'dismissal'
        notification.payload.dismissal = .immediately
        // error: missing argument for parameter 'alert'
        _ = LiveActivityStart(attributesType: "A", attributes: attributes, contentState: state, timestamp: 1)
        // error: missing argument for parameter 'timestamp' in call
        _ = LiveActivityUpdate(contentState: state)
        // error: cannot convert value of type 'Int64' to expected argument type 'UnixTime'
        _ = LiveActivityUpdate(contentState: state, timestamp: nowMs)
    #else
        alert.sound = .named("goal.caf")
        notification.payload.relevanceScore = 100
        // "Set the value for the apns-priority header field to 5 or 10."
        notification.priority = .powerConsiderate
        var end = LiveActivityEnd(contentState: state, timestamp: 1_790_000_000)
        end.dismissal = .immediately
        _ = LiveActivityStart(
            attributesType: "A", attributes: attributes, contentState: state, alert: alert, timestamp: 1)
        _ = LiveActivityUpdate(contentState: state, timestamp: UnixTime(secondsSinceEpoch: nowMs / 1_000))
    #endif
}

/// Payloads for controls and widgets have no content. "This is the complete message" of MDM.
func payloadsWithoutAlert() {
    var magic = MDMPayload(pushMagic: "PushMagicValue")
    #if MISUSE
        var controls = ControlsPayload()
        // error: value of type 'ControlsPayload' has no member 'custom'
        controls.custom["isOn"] = true
        // error: value of type 'MDMPayload' has no member 'body'
        magic.body = "News"
        // error: argument passed to call that takes no arguments
        _ = WidgetsPayload(title: "News")
    #else
        _ = (ControlsPayload(), WidgetsPayload())
        magic.pushMagic = "OtherMagic"
    #endif
}

/// A call is not an alert. "Set the APNs priority to 10 to request immediate delivery" of speech.
func calls() {
    var speech = PushNotification(PushToTalkPayload(["activeSpeaker": "Ada"]))
    var call = PushNotification(VoIPPayload(["handle": "Ada"]))
    #if MISUSE
        // error: requires that 'AlertPayload' conform to 'Collection'
        _ = PushNotification(AlertPayload(body: "Ada calls"), pushType: .voip)
        // error: (aka 'Optional<ImmediatePriority>') has no member 'powerConsiderate'
        speech.priority = .powerConsiderate
        // error: cannot assign value of type 'String' to type 'PushTopic'
        call.topic = "com.example.shop"
    #else
        speech.priority = .immediate
        // A topic states whether its suffix must be added.
        call.topic = .bundleID("com.example.shop")
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
