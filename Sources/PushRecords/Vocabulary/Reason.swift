/// Why APNs refused a notification: the word in `reason` of its answer, or one of ours in the same vocabulary.
///
/// An open code: what Apple may add tomorrow is kept as it came. Source: "Handling notification responses from APNs".
public struct Reason: RawRepresentable, Hashable, Sendable {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
}

/// The reasons known by name, as one byte, so that a completion carries no string; `none` and `other` are not reasons.
///
/// The first 32 are Apple's page, in its order; the rest were seen live, or belong to broadcasts, whose page is
/// "Handling error responses from Apple Push Notification service".
package enum ReasonCode: UInt8, CaseIterable, Sendable {
    /// There is no reason: the answer was 200, or its body could not be read.
    case none = 0
    case badCollapseId = 1
    case badDeviceToken = 2
    case badExpirationDate = 3
    case badMessageId = 4
    case badPriority = 5
    case badTopic = 6
    case deviceTokenNotForTopic = 7
    case duplicateHeaders = 8
    case idleTimeout = 9
    case invalidPushType = 10
    case missingDeviceToken = 11
    case missingTopic = 12
    case payloadEmpty = 13
    case topicDisallowed = 14
    case badCertificate = 15
    case badCertificateEnvironment = 16
    case expiredProviderToken = 17
    case forbidden = 18
    case invalidProviderToken = 19
    case missingProviderToken = 20
    case unrelatedKeyIdInToken = 21
    case badEnvironmentKeyIdInToken = 22
    case badPath = 23
    case methodNotAllowed = 24
    case expiredToken = 25
    case unregistered = 26
    case payloadTooLarge = 27
    case tooManyProviderTokenUpdates = 28
    case tooManyRequests = 29
    case internalServerError = 30
    case serviceUnavailable = 31
    case shutdown = 32
    /// Seen live beside BadEnvironmentKeyIdInToken.
    case badEnvironmentKeyInToken = 33
    /// Broadcast.
    case featureNotEnabled = 34
    /// Broadcast.
    case missingChannelId = 35
    /// Broadcast.
    case badChannelId = 36
    /// Broadcast.
    case channelNotRegistered = 37
    /// Broadcast.
    case badRequestParams = 38
    /// Broadcast.
    case badRequestPayload = 39
    /// Broadcast.
    case missingPushType = 40
    /// Broadcast.
    case cannotCreateChannelConfig = 41
    /// The key is for other topics: it opens the circuit of that topic. Broadcast.
    case topicMismatch = 42
    /// Broadcast, with its space.
    case serviceUnavailableSpaced = 43
    /// A reason this product does not know: its text travels beside the completion.
    case other = 255

    /// "Don't retry notification responses with the error code …" (Apple's page).
    package var isFinal: Bool {
        switch self {
        case .badDeviceToken, .deviceTokenNotForTopic, .forbidden, .expiredToken, .unregistered, .payloadTooLarge: true
        case .none, .badCollapseId, .badExpirationDate, .badMessageId, .badPriority, .badTopic, .duplicateHeaders,
            .idleTimeout, .invalidPushType, .missingDeviceToken, .missingTopic, .payloadEmpty, .topicDisallowed,
            .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .invalidProviderToken,
            .missingProviderToken, .unrelatedKeyIdInToken, .badEnvironmentKeyIdInToken, .badPath, .methodNotAllowed,
            .tooManyRequests, .internalServerError, .serviceUnavailable, .shutdown, .badEnvironmentKeyInToken,
            .featureNotEnabled, .missingChannelId, .badChannelId, .channelNotRegistered, .badRequestParams,
            .badRequestPayload, .missingPushType, .cannotCreateChannelConfig, .serviceUnavailableSpaced,
            .tooManyProviderTokenUpdates, .topicMismatch, .other:
            false
        }
    }

    /// Apple's word; `nil` for `none` and `other`.
    package var text: StaticString? {
        switch self {
        case .none, .other: nil
        case .badCollapseId: "BadCollapseId"
        case .badDeviceToken: "BadDeviceToken"
        case .badExpirationDate: "BadExpirationDate"
        case .badMessageId: "BadMessageId"
        case .badPriority: "BadPriority"
        case .badTopic: "BadTopic"
        case .deviceTokenNotForTopic: "DeviceTokenNotForTopic"
        case .duplicateHeaders: "DuplicateHeaders"
        case .idleTimeout: "IdleTimeout"
        case .invalidPushType: "InvalidPushType"
        case .missingDeviceToken: "MissingDeviceToken"
        case .missingTopic: "MissingTopic"
        case .payloadEmpty: "PayloadEmpty"
        case .topicDisallowed: "TopicDisallowed"
        case .badCertificate: "BadCertificate"
        case .badCertificateEnvironment: "BadCertificateEnvironment"
        case .expiredProviderToken: "ExpiredProviderToken"
        case .forbidden: "Forbidden"
        case .invalidProviderToken: "InvalidProviderToken"
        case .missingProviderToken: "MissingProviderToken"
        case .unrelatedKeyIdInToken: "UnrelatedKeyIdInToken"
        case .badEnvironmentKeyIdInToken: "BadEnvironmentKeyIdInToken"
        case .badPath: "BadPath"
        case .methodNotAllowed: "MethodNotAllowed"
        case .expiredToken: "ExpiredToken"
        case .unregistered: "Unregistered"
        case .payloadTooLarge: "PayloadTooLarge"
        case .tooManyProviderTokenUpdates: "TooManyProviderTokenUpdates"
        case .tooManyRequests: "TooManyRequests"
        case .internalServerError: "InternalServerError"
        case .serviceUnavailable: "ServiceUnavailable"
        case .shutdown: "Shutdown"
        case .badEnvironmentKeyInToken: "BadEnvironmentKeyInToken"
        case .featureNotEnabled: "FeatureNotEnabled"
        case .missingChannelId: "MissingChannelId"
        case .badChannelId: "BadChannelId"
        case .channelNotRegistered: "ChannelNotRegistered"
        case .badRequestParams: "BadRequestParams"
        case .badRequestPayload: "BadRequestPayload"
        case .missingPushType: "MissingPushType"
        case .cannotCreateChannelConfig: "CannotCreateChannelConfig"
        case .topicMismatch: "TopicMismatch"
        case .serviceUnavailableSpaced: "Service Unavailable"
        }
    }

    package var reason: Reason? { text.map { Reason(rawValue: $0.description) } }

    /// Made once, since `allCases` allocates at every call.
    private static let known: [(text: StaticString, code: ReasonCode)] = allCases.compactMap { code in
        code.text.map { ($0, code) }
    }

    /// The code of a reason's text; `nil` when it is not known by name. Allocates nothing.
    package init?(text: UnsafeRawBufferPointer) {
        for index in Self.known.indices where Self.known[index].text.utf8CodeUnitCount == text.count {
            let known = Self.known[index].text
            let same = unsafe text.elementsEqual(UnsafeBufferPointer(start: known.utf8Start, count: text.count))
            if same {
                self = Self.known[index].code
                return
            }
        }
        return nil
    }

    /// The code of a reason's text that is owned; `nil` when it is not known by name.
    package init?(_ text: String) {
        var text = text
        let code = text.withUTF8 { ReasonCode(text: UnsafeRawBufferPointer($0)) }
        guard let code else { return nil }
        self = code
    }
}
