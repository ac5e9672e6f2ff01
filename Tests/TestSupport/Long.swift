import Foundation

/// Tests that take minutes or repeat other tests in a larger size. `Docker/test --all` runs them.
package enum Long {
    package static let isWanted = ProcessInfo.processInfo.environment["APNS_WORKER_LONG"] != nil
}
