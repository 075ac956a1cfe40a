// Runs implementations on ranks that are threads of this process.
#include <truestep/gate/group.hpp>

#include <stdexcept>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/in_process_peers.hpp>

namespace truestep::gate {

namespace {

class ThreadGroup final : public Group {
  public:
    explicit ThreadGroup(std::chrono::milliseconds timeout) : timeout_(timeout) {}

    std::string name() const override { return "in_process"; }
    bool takes(int workers) const override { return workers >= 1; }
    void run(int workers, const Work& work) const override {
        distributed::run_ranks(workers, work, timeout_);
    }
    void run_peers(int workers, const PeerWork& work) const override {
        distributed::run_peers(workers, work, timeout_);
    }
    std::vector<Bytes> exchange(int workers, const std::function<Bytes(int)>& mine) const override {
        std::vector<Bytes> all;
        all.reserve(static_cast<std::size_t>(workers));
        for (int rank = 0; rank < workers; ++rank)
            all.push_back(mine(rank));
        return all;
    }

  private:
    std::chrono::milliseconds timeout_;
};

} // namespace

void Group::run_peers(int /*workers*/, const PeerWork& /*work*/) const {
    throw std::logic_error("the ranks of " + name() + " send no messages to peers");
}

std::shared_ptr<const Group> make_thread_group(std::chrono::milliseconds timeout) {
    return std::make_shared<ThreadGroup>(timeout);
}

} // namespace truestep::gate
