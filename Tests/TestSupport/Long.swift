import Foundation

/// What takes minutes, or shows in a larger size what the gate has shown: `Docker/test --all` asks for it.
package enum Long {
    package static let isWanted = ProcessInfo.processInfo.environment["APNS_WORKER_LONG"] != nil
}
