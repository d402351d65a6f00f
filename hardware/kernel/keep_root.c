// SPDX-License-Identifier: GPL-2.0
/*
 * What was read of the root, which is read-only, is kept when its last reader closes it: the next program starts from
 * memory. The host's file is closed all the same, since there may be few of them.
 */
static int hostfs_drop_inode(struct inode *inode)
{
	if (!sb_rdonly(inode->i_sb))
		return inode_just_drop(inode);
	if (HOSTFS_I(inode)->fd != -1) {
		close_file(&HOSTFS_I(inode)->fd);
		HOSTFS_I(inode)->fd = -1;
		HOSTFS_I(inode)->mode = 0;
	}
	return inode_generic_drop(inode);
}

