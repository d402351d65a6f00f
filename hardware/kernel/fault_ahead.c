// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that show pictures write fresh buffers from end to end, and in User-Mode Linux each fault costs about 30 us:
 * after a write fault in memory of no file, the pages behind it up to the next boundary of 256 KiB are faulted in too.
 */
#define FAULT_AHEAD_BYTES (64UL << PAGE_SHIFT)

static void fault_ahead(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long next = (address & PAGE_MASK) + PAGE_SIZE;
	unsigned long end = min(vma->vm_end, ALIGN(next, FAULT_AHEAD_BYTES));

	if (!vma_is_anonymous(vma) && !vma_is_shmem(vma))
		return;
	/* Without FAULT_FLAG_ALLOW_RETRY the lock stays held; a failure shows when the page is wanted. */
	for (; next < end; next += PAGE_SIZE)
		if (handle_mm_fault(vma, next, FAULT_FLAG_WRITE | FAULT_FLAG_USER, NULL) & VM_FAULT_ERROR)
			return;
}

