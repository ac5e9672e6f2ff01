import JSON

/// The members of a value that may be an envelope, by name. Reused from record to record; owns its table, not the
/// bytes.
struct EnvelopeTable: ~Copyable {
    /// The names that an envelope may have, and `aps`, which makes it none.
    enum Name: UInt8, CaseIterable {
        case payload, deviceToken, deviceTokens, channelID, app, environment, headers, notBefore, aps

        var text: StaticString {
            switch self {
            case .payload: "payload"
            case .deviceToken: "device_token"
            case .deviceTokens: "device_tokens"
            case .channelID: "channel_id"
            case .app: "app"
            case .environment: "environment"
            case .headers: "headers"
            case .notBefore: "not_before"
            case .aps: "aps"
            }
        }

        /// - Parameter name: the inside of a checked JSON string.
        init?(_ name: UnsafeRawBufferPointer) {
            let found: Name
            switch (name.count, name.first) {
            case (7, UInt8(ascii: "p")): found = .payload
            case (12, UInt8(ascii: "d")): found = .deviceToken
            case (13, UInt8(ascii: "d")): found = .deviceTokens
            case (10, UInt8(ascii: "c")): found = .channelID
            case (3, UInt8(ascii: "a")):
                found = name[1] == UInt8(ascii: "p") && name[2] == UInt8(ascii: "p") ? .app : .aps
            case (11, UInt8(ascii: "e")): found = .environment
            case (7, UInt8(ascii: "h")): found = .headers
            case (10, UInt8(ascii: "n")): found = .notBefore
            default:
                self.init(escaped: name)
                return
            }
            guard found.text.spells(name) else {
                self.init(escaped: name)
                return
            }
            self = found
        }

        /// A name of which some is escaped, as JSON allows.
        private init?(escaped name: UnsafeRawBufferPointer) {
            guard name.contains(0x5C) else { return nil }
            let text = JSONText(checked: name)
            guard let found = Name.allCases.first(where: { text.equals($0.text) }) else { return nil }
            self = found
        }
    }

    private let values: UnsafeMutablePointer<UnsafeRawBufferPointer>
    /// One bit a name.
    private var present: UInt16 = 0
    /// The names of the first member that came twice, and of the first that an envelope does not have.
    private(set) var duplicate: UnsafeRawBufferPointer = .nothing
    private(set) var unknown: UnsafeRawBufferPointer = .nothing
    /// It has a payload and nobody whom it is for: an envelope, but for that.
    private(set) var lacksTarget = false

    init() {
        values = .allocate(capacity: Name.allCases.count)
        values.initialize(repeating: .nothing, count: Name.allCases.count)
    }

    deinit { values.deallocate() }

    /// The member's value, with a string's quotes; `nil` when it is absent or `null`.
    subscript(_ name: Name) -> UnsafeRawBufferPointer? {
        guard has(name) else { return nil }
        let value = values[Int(name.rawValue)]
        return value.first == UInt8(ascii: "n") ? nil : value
    }

    private func has(_ name: Name) -> Bool { present & (1 &<< name.rawValue) != 0 }

    /// Reads an object; whether it is an envelope: it has `payload` and one of `device_token`, `device_tokens`,
    /// `channel_id`, and no `aps`.
    ///
    /// - Parameter members: what `scan` reported of `value`.
    mutating func read(
        _ value: UnsafeRawBufferPointer, _ scan: JSONScan, _ members: UnsafeMutableBufferPointer<JSONMember>
    ) -> Bool {
        present = 0
        duplicate = .nothing
        unknown = .nothing
        lacksTarget = false
        if scan.memberCount <= members.count {
            for index in 0..<scan.memberCount {
                let member = members[index]
                let name = value.part(member.nameStart, member.nameEnd)
                if !add(name, value.part(member.valueStart, member.valueEnd)) { return false }
            }
        } else {
            // More members than an envelope may have: some are unknown, or come twice.
            var reader = JSONReader(checked: value)
            do { try reader.enterObject() } catch { return false }
            while let name = reader.nextMember() {
                if !add(name.bytes, reader.skip()) { return false }
            }
        }
        let hasTarget = has(.deviceToken) || has(.deviceTokens) || has(.channelID)
        lacksTarget = has(.payload) && !hasTarget
        return has(.payload) && hasTarget
    }

    /// `false` when the member is `aps`.
    private mutating func add(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) -> Bool {
        guard let known = Name(name) else {
            if unknown.baseAddress == nil { unknown = name }
            return true
        }
        if known == .aps { return false }
        if has(known) {
            if duplicate.baseAddress == nil { duplicate = name }
            return true
        }
        present |= 1 &<< known.rawValue
        values[Int(known.rawValue)] = value
        return true
    }
}

/// A place in a JSON list of device tokens, so that a fan-out can be admitted piece by piece.
///
/// The position counts bytes from the start of `ParsedRequest.tokenList`; it may be kept, and the reading resumed, on a
/// copy of those bytes. The list must be one that `RequestParser` accepted, unchanged.
package struct TokenCursor {
    package var position: Int
    /// The index of the token that `next` reads next.
    package var index: Int32

    @inlinable package init() {
        position = 0
        index = 0
    }

    /// Reads the next token into `buffer` (at least `DeviceToken.textLimit` bytes); `nil` at the end of the list.
    package mutating func next(
        in list: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> DeviceToken.Normalized? {
        guard let text = JSONStringList.next(in: list, after: &position) else { return nil }
        index += 1
        let read = DeviceToken.normalize(text, into: buffer)
        guard read.failure != .none, JSONText(checked: text).hasEscapes else { return read }
        // Nobody escapes hex digits, but JSON allows it.
        return withUnsafeTemporaryAllocation(byteCount: DeviceToken.textLimit + 1, alignment: 1) { resolved in
            guard let count = JSONText(checked: text).resolve(into: resolved) else { return read }
            return DeviceToken.normalize(UnsafeRawBufferPointer(rebasing: resolved[..<count]), into: buffer)
        }
    }
}
