// Names the outcomes of a check, such as PASSED and MISTRUSTED.
#include <truestep/report/status.hpp>

namespace truestep::report {

std::string name(Status status) {
    switch (status) {
    case Status::passed:
        return "PASSED";
    case Status::failed:
        return "FAILED";
    case Status::skipped:
        return "SKIPPED";
    case Status::mistrusted:
        return "MISTRUSTED";
    case Status::untested:
        return "UNTESTED";
    }
    return "?";
}

} // namespace truestep::report
