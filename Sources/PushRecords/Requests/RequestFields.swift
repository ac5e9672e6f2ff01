extension RequestParser {
    /// Validates the values in the field table and stores them in the request. The parser calls this function for both
    /// the payload form and the envelope form.
    mutating func readFields(_ request: inout ParsedRequest) {
        let isBroadcast = request.target == .channel
        if ForeignForm.isQuoted(request.token), ForeignForm.isQuotedHex(request.token) {
            request.fail(.badDeviceToken, ForeignForm.quotedToken)
        }
        request.headers.pushType = isBroadcast ? .liveactivity : .alert
        if isBroadcast && !HeaderCheck.isClean(request.channelID, limit: RecordLimits.channelID) {
            request.refuse(.channelID, "a channel id must be printable ASCII of 1 to 200 bytes", request.channelID)
            request.channelID = request.channelID.cutText(RecordLimits.channelID)
        }
        if let value = fields[.topic] {
            request.headers.topic = value
            if !HeaderCheck.isClean(value, limit: RecordLimits.topic) {
                request.headers.topic = value.cutText(RecordLimits.topic)
                request.refuse(.topic, "apns-topic must be printable ASCII of 1 to 255 bytes", value)
            } else if isBroadcast && HeaderCheck.pushType(ofTopic: value) == .liveactivity {
                // `AppDirectory` has this check too. The parser repeats it, so that it also applies to producers that
                // use this library.
                request.fail(
                    .topicDisallowed, "a broadcast's topic must be the bundle id without a push type's suffix", value)
            }
        }
        if let value = fields[.pushType] {
            if let type = HeaderCheck.pushType(value) {
                request.headers.pushType = type
            } else {
                var nearest = NearestName(to: value)
                for type in PushType.allCases { nearest.consider(type.text) }
                request.refuse(
                    .pushType, "apns-push-type must be one of Apple's push types",
                    ForeignForm.isQuoted(value) ? value : scratch.suggestion(nearest.text, for: value))
            }
            if isBroadcast && request.headers.pushType != .liveactivity {
                request.fail(.invalidPushType, "a broadcast's apns-push-type must be liveactivity", value)
            }
        } else if !isBroadcast, let type = HeaderCheck.pushType(ofTopic: request.headers.topic) {
            request.headers.pushType = type
        }
        if let value = fields[.priority] {
            if let priority = HeaderCheck.priority(value) {
                request.headers.priority = priority
                if request.headers.pushType == .background && priority != 5 {
                    request.fail(.badPriority, "apns-priority of a background notification must be 5", value)
                }
            } else {
                request.refuse(.priority, "apns-priority must be 1, 5 or 10", value)
            }
        } else if request.headers.pushType == .background {
            request.headers.priority = 5
        }
        if let value = fields[.expiration] {
            if let seconds = HeaderCheck.unsigned(value), let expiration = UInt32(exactly: seconds) {
                request.headers.expiration = expiration
            } else {
                request.refuse(.expiration, "apns-expiration must be 0 to 4294967295 seconds since 1970", value)
            }
        }
        if let value = fields[.notBefore] { readNotBefore(value, &request) }
        if let value = fields[.collapseID] {
            request.headers.collapseID = value
            if !HeaderCheck.isClean(value, limit: RecordLimits.collapseID) {
                request.headers.collapseID = value.cutText(RecordLimits.collapseID)
                request.refuse(.collapseID, "apns-collapse-id must be printable ASCII of 1 to 64 bytes", value)
            }
        }
        if let value = fields[.apnsID] {
            if let id = NotificationUUID(text: value), id != .none {
                request.headers.apnsID = id
            } else {
                request.refuse(.apnsID, "apns-id must be a UUID other than the nil UUID", value)
            }
        }
        if let value = fields[.app] {
            // Store one byte more than the limit, so that a name that is too long cannot match another app.
            request.app = value.cut(RecordLimits.app + 1)
            if value.count == 0 { request.fail(.none, "the app's name must not be empty") }
            if value.count > RecordLimits.app || ForeignForm.isQuoted(value) {
                request.refuse(.app, "the app's name must have at most 100 bytes", value)
            }
        }
        if let value = fields[.environment] {
            if let environment = HeaderCheck.environment(value) {
                request.environment = environment
            } else {
                request.refuse(.environment, "the environment must be production or development", value)
            }
        }
    }

    /// Reads the earliest time at which to send the notification. This time must be before an expiration that is not 0.
    private func readNotBefore(_ value: UnsafeRawBufferPointer, _ request: inout ParsedRequest) {
        let isEnvelope = request.form == .envelope
        guard let seconds = HeaderCheck.unsigned(value), let notBefore = UInt32(exactly: seconds) else {
            // The value in an envelope is raw JSON, so a string still has its quotes.
            return isEnvelope
                ? request.fail(.none, "not_before must be a number, 0 to 4294967295 seconds since 1970", value)
                : request.refuse(.notBefore, "push-not-before must be 0 to 4294967295 seconds since 1970", value)
        }
        request.notBefore = notBefore
        if let expiration = request.headers.expiration, expiration > 0, expiration <= notBefore {
            request.fail(
                .badExpirationDate,
                isEnvelope
                    ? "apns-expiration must be 0, or later than not_before"
                    : "apns-expiration must be 0, or later than push-not-before", fields[.expiration] ?? .nothing)
        }
    }
}
