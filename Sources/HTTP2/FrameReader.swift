internal import CNghttp2

/// A frame as it passed, for who looks on (RFC 9113, 4.1 and 6).
package struct PassedFrame: Sendable {
    package var length: Int
    package var type: UInt8
    package var flags: UInt8
    package var stream: UInt32
    /// The first bytes of it, at most 2,048; empty for DATA unless asked for, and for what holds header fields.
    package var payload: [UInt8] = []
    /// What it holds of the header fields; `nil`: it holds none, or what came before could not be read.
    package var fields: [PassedField]?
}

/// A header field as it passed.
package struct PassedField: Sendable, Equatable {
    package var name: [UInt8]
    package var value: [UInt8]

    package init(name: [UInt8], value: [UInt8]) {
        self.name = name
        self.value = value
    }
}

/// Reads the frames of one direction of a connection, beside the session that the bytes are for.
///
/// It never fails: of a frame that cannot be read it tells the head. What it keeps is bounded. One thread at a time.
@safe package final class FrameReader {
    private static let payloadLimit = 2_048
    /// Of a frame with header fields; nothing that a session takes is longer (SETTINGS_MAX_FRAME_SIZE is never raised).
    private static let blockLimit = 16_384
    /// Of one frame's fields, names and values: what HPACK can make of few bytes is kept to this.
    private static let fieldsLimit = 16_384

    private let keepsData: Bool
    /// Of the client's preface (RFC 9113, 3.4).
    private var prefaceLeft: Int
    private var head: [UInt8] = []
    private var frame: PassedFrame?
    private var left = 0
    /// `nil` once header fields could not be read: the table is of no use then.
    private var inflater: OpaquePointer?

    /// - Parameters:
    ///   - isClient: the bytes are a client's: its preface comes first.
    ///   - keepsData: whether frames of DATA come with what is in them.
    package init(isClient: Bool, keepsData: Bool) {
        self.keepsData = keepsData
        prefaceLeft = isClient ? 24 : 0
        var raw: OpaquePointer?
        // nghttp2.h: fails only without memory.
        if unsafe nghttp2_hd_inflate_new(&raw) == 0 { unsafe inflater = unsafe raw }
        // The peer's SETTINGS may allow a larger table than the default, and are not waited for.
        if let raw = unsafe raw { _ = unsafe nghttp2_hd_inflate_change_table_size(raw, 1 << 20) }
    }

    deinit { dropInflater() }

    private func dropInflater() {
        if let inflater = unsafe inflater { unsafe nghttp2_hd_inflate_del(inflater) }
        unsafe inflater = nil
    }

    /// Takes the next bytes, cut anywhere, and tells each frame that they end.
    package func read(_ bytes: UnsafeRawBufferPointer, _ take: (PassedFrame) -> Void) {
        var rest = unsafe bytes[...]
        if prefaceLeft > 0 {
            let skipped = unsafe min(prefaceLeft, rest.count)
            prefaceLeft -= skipped
            unsafe rest = rest.dropFirst(skipped)
        }
        while unsafe !rest.isEmpty || (frame != nil && left == 0) {
            if var current = frame {
                let count = unsafe min(left, rest.count)
                let room = max(0, limit(current.type) - current.payload.count)
                unsafe current.payload.append(contentsOf: rest.prefix(min(count, room)))
                unsafe rest = rest.dropFirst(count)
                left -= count
                frame = current
                guard left == 0 else { return }
                frame = nil
                take(finished(current))
            } else {
                let count = unsafe min(9 - head.count, rest.count)
                unsafe head.append(contentsOf: rest.prefix(count))
                unsafe rest = rest.dropFirst(count)
                guard head.count == 9 else { return }
                begin()
            }
        }
    }

    private func begin() {
        left = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        let stream = UInt32(head[5]) << 24 | UInt32(head[6]) << 16 | UInt32(head[7]) << 8 | UInt32(head[8])
        frame = PassedFrame(length: left, type: head[3], flags: head[4], stream: stream & 0x7FFF_FFFF)
        head.removeAll(keepingCapacity: true)
    }

    private func limit(_ type: UInt8) -> Int {
        if Self.holdsFields(type) { return Self.blockLimit }
        return type == 0 && !keepsData ? 0 : Self.payloadLimit
    }

    /// HEADERS, PUSH_PROMISE and CONTINUATION.
    private static func holdsFields(_ type: UInt8) -> Bool { type == 1 || type == 5 || type == 9 }

    private func finished(_ frame: PassedFrame) -> PassedFrame {
        guard Self.holdsFields(frame.type) else { return frame }
        var frame = frame
        let payload = frame.payload
        frame.payload = []
        guard frame.length == payload.count, let block = Self.block(payload, frame.type, frame.flags) else {
            dropInflater()
            return frame
        }
        frame.fields = fields(block, isLast: frame.flags & 0x4 != 0)
        return frame
    }

    /// Without padding, priority and the promised stream's id (RFC 9113, 6.2 and 6.6); `nil`: they do not fit in it.
    private static func block(_ payload: [UInt8], _ type: UInt8, _ flags: UInt8) -> ArraySlice<UInt8>? {
        var block = payload[...]
        guard type != 9 else { return block }
        if flags & 0x8 != 0 {
            guard let padding = block.popFirst(), padding <= block.count else { return nil }
            block = block.dropLast(Int(padding))
        }
        let before = type == 5 ? 4 : flags & 0x20 != 0 ? 5 : 0
        return block.count >= before ? block.dropFirst(before) : nil
    }

    private func fields(_ block: ArraySlice<UInt8>, isLast: Bool) -> [PassedField]? {
        guard let inflater = unsafe inflater else { return nil }
        var fields: [PassedField] = []
        var kept = 0
        let isRead = unsafe block.withUnsafeBufferPointer { block in
            var position = 0
            while true {
                var field = unsafe nghttp2_nv()
                var flags: Int32 = 0
                let start = unsafe block.baseAddress.map { unsafe $0 + position }
                let count = unsafe nghttp2_hd_inflate_hd2(
                    inflater, &field, &flags, start, block.count - position, isLast ? 1 : 0)
                guard count >= 0 else { return false }
                position += count
                if flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0 {
                    kept += unsafe field.namelen + field.valuelen
                    guard kept <= Self.fieldsLimit else { continue }
                    unsafe fields.append(
                        PassedField(
                            name: Array(UnsafeBufferPointer(start: field.name, count: field.namelen)),
                            value: Array(UnsafeBufferPointer(start: field.value, count: field.valuelen))))
                } else if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
                    unsafe nghttp2_hd_inflate_end_headers(inflater)
                    return true
                } else if position == block.count {
                    return true
                }
            }
        }
        guard isRead else {
            dropInflater()
            return nil
        }
        return fields
    }
}
