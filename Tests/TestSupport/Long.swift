import Foundation

/// Tests that take minutes, or repeat in a larger size what the gate has shown: `Docker/test --all` runs them.
package enum Long {
    package static let isWanted = ProcessInfo.processInfo.environment["APNS_WORKER_LONG"] != nil
}
